"""The dashboard's answers: what fails and since when, which firm floods, how long jobs take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.engine.clock import stopped_at
from jobs.engine.rollups import Measured, Rollups
from jobs.models import Attempt, FailingType, JobQueue, LatencyBucket
from jobs.models.base import id_at
from jobs.queries import trouble
from jobs.queries.latency import percentile
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.jobs.admin.conftest import FirmRows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-03")]

# The clock stops at half past an hour, after all rows of the fixtures, so that no bar ends.
NOW = (timezone.now() + timedelta(hours=3)).replace(minute=30, second=0, microsecond=0)
_numbers = iter(range(1, 1000))


def at(moment: datetime) -> UUID:
    """Return an id of this time that was not returned before."""
    return UUID(int=id_at(moment).int + next(_numbers))


def failed(
    firm: Firm,
    minutes_ago: float,
    job_type: str = "sync",
    message: str = "",
    end: str = "retried",
    error_class: str = "shop.errors.Refused",
) -> Attempt:
    """Store an attempt that failed."""
    moment = NOW - timedelta(minutes=minutes_ago)
    with all_firms("test"):
        return Attempt.objects.create(
            id=at(moment),
            firm=firm,
            job=JobQueueFactory(job_id=at(moment), firm=firm, job_type=job_type),
            series=1,
            number=1,
            ended_at=moment,
            end=end,
            error_class=error_class,
            message=message,
        )


def dashboard(client: Client) -> Any:
    with stopped_at(NOW):
        response = client.get(reverse("admin:index"))
    assert response.status_code == 200
    return response


def test_what_fails_is_shown_by_type_with_its_latest_error(member: Client, acme: FirmRows) -> None:
    failed(acme.firm, 19, "sync", "an old one")
    failed(acme.firm, 9, "sync", "the first")
    latest = failed(acme.firm, 2, "sync", "the latest")
    failed(acme.firm, 3, "ingest", end="dead_lettered")
    failed(acme.firm, 3, "snoozed", end="snoozed")
    failed(acme.firm, 25, "recovered")
    # The worker of these attempts died, but their handlers did not run.
    failed(acme.firm, 1, "claimed", end="rescued", error_class="NotRunning")
    failed(acme.firm, 1, "sync", "not its own", end="rescued", error_class="NotStarted")
    page = dashboard(member)
    sync, ingest = page.context["failing"]
    assert (sync.job_type, sync.recent, sync.trend) == ("sync", "2", "rising")
    assert [number for number, _ in sync.bars] == [0, 0, 1, 0, 1, 1]
    assert "Refused: the latest" in sync.error
    assert "shop.errors" not in sync.error
    assert str(latest.job_id) in sync.error_href
    assert f"{NOW - timedelta(minutes=19):%H:%M}" in sync.since
    assert (ingest.job_type, ingest.recent) == ("ingest", "1")
    listed = member.get(sync.href).context["cl"].result_list
    assert {job.job_type for job in listed} == {"sync"}
    text = page.content.decode()
    assert "the latest" in text
    assert "recovered" not in text


def test_of_a_type_that_fails_in_several_ways_the_most_frequent_error_is_shown(
    member: Client, acme: FirmRows
) -> None:
    failed(acme.firm, 9, message="no price", error_class="KeyError")
    frequent = failed(acme.firm, 8, message="no price now", error_class="KeyError")
    failed(acme.firm, 2, message="lost", end="rescued", error_class="WorkerDied")
    # These are too old to count among what fails now.
    for ago in (18, 19, 20):
        failed(acme.firm, ago, message="an old one", error_class="TimeoutError")
    (sync,) = dashboard(member).context["failing"]
    assert "KeyError: no price now" in sync.error
    assert str(frequent.job_id) in sync.error_href
    assert sync.recent == "3"


def test_it_says_how_many_more_types_fail_and_firms_there_are(
    staff: Client, acme: FirmRows, globex: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_type in ("sync", "ingest", "classify"):
        failed(acme.firm, 3, job_type)
    assert "more</p>" not in dashboard(staff).content.decode()
    monkeypatch.setattr(trouble, "TYPES_SHOWN", 1)
    monkeypatch.setattr("jobs.admin.dashboard.FIRMS_SHOWN", 1)
    shown = dashboard(staff)
    assert (len(shown.context["failing"]), len(shown.context["firms"])) == (1, 1)
    assert "and 2 more</p>" in shown.content.decode()
    assert "and 1 more</p>" in shown.content.decode()


def test_it_says_since_when_a_type_fails_even_for_days(member: Client, acme: FirmRows) -> None:
    failed(acme.firm, 2)
    with all_firms("test"):
        FailingType.objects.create(
            firm=acme.firm,
            job_type="sync",
            failing_since=NOW - timedelta(days=3),
            last_failed_at=NOW - timedelta(minutes=2),
        )
    (sync,) = dashboard(member).context["failing"]
    assert f"{NOW - timedelta(days=3):%Y-%m-%dT%H:%M}" in sync.since


@pytest.mark.req("T-03")
def test_another_firms_failures_and_times_are_not_shown(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    failed(globex.firm, 2, message="secret of globex")
    rollups = Rollups()
    rollups.add([Measured(globex.firm.pk, "sync", "sync", [1], [1], failed=True)])
    with stopped_at(NOW):
        rollups.store()
    page = dashboard(member)
    assert page.context["failing"] == []
    assert page.context["latency"] == []
    assert page.context["flooding"] == []
    assert "secret of globex" not in page.content.decode()
    assert "Nothing failed in the last 15 minutes." in page.content.decode()


def test_of_a_storm_the_newest_failures_are_counted(
    member: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trouble, "MOST_READ", 2)
    for ago in (5, 4, 3):
        failed(acme.firm, ago)
    page = dashboard(member)
    assert [row.recent for row in page.context["failing"]] == ["2"]
    assert "there are more" in page.content.decode()


def test_the_firm_that_floods_is_named(staff: Client, acme: FirmRows, globex: FirmRows) -> None:
    with all_firms("test"):
        JobQueue.objects.all().delete()
    for ago in (1, 2, 3):
        moment = NOW - timedelta(minutes=ago)
        JobQueueFactory(job_id=at(moment), firm=globex.firm, created_at=moment)
    old = NOW - timedelta(days=1)
    with all_firms("test"):
        JobQueueFactory(job_id=at(old), firm=acme.firm, created_at=old)
        JobQueue.objects.filter(firm=acme.firm).update(created_at=old)
    with all_firms("test"):
        for job in JobQueue.objects.filter(firm=globex.firm):
            moment = datetime.fromtimestamp((job.pk.int >> 80) / 1000, UTC)
            JobQueue.objects.filter(pk=job.pk).update(created_at=moment)
    first, second = dashboard(staff).context["flooding"]
    assert (first.name, first.waiting, first.per_minute) == ("Globex", "3", "0.6")
    assert (second.name, second.waiting, second.per_minute) == ("Acme", "1", "0.0")
    listed = staff.get(first.href).context["cl"].result_list
    assert {job.firm_id for job in listed} == {globex.firm.pk}


def test_times_are_shown_in_percentiles(member: Client, acme: FirmRows) -> None:
    rollups = Rollups()
    seconds = [*[0.2] * 90, *[4.0] * 9, 100_000.0]
    waited = [0.01] * len(seconds)
    rollups.add([Measured(acme.firm.pk, "sync", "sync", waited, seconds, failed=False)])
    with stopped_at(NOW):
        assert rollups.store()
    for chosen in ("1h", "24h", "7d"):
        with stopped_at(NOW):
            page = member.get(reverse("admin:index"), {"range": chosen})
        (row,) = page.context["latency"]
        assert (row.name, row.attempts) == ("sync", "100")
        cells = dict(row.cells)
        assert cells["Run p50"] == "183 ms"
        assert (cells["Run p95"], cells["Run p99"]) == ("3 s", "5 s")
        assert cells["Wait p99"] == "25 ms"


def test_a_percentile_is_taken_within_its_bucket() -> None:
    none = [0] * 14
    assert percentile([*none[:5], 10, *none[6:]], 0.5) == 0.75
    assert percentile([*none[:13], 3], 0.5) == 3600
    assert percentile([4, *none[1:]], 1.0) == 0.005


def test_rollups_add_up_and_a_type_that_recovered_starts_anew(firm: Firm) -> None:
    rollups = Rollups()

    def fails_at(moment: datetime) -> FailingType:
        with stopped_at(moment):
            rollups.add([Measured(firm.pk, "sync", "sync", [1], [1], failed=True)])
            assert rollups.store()
        with all_firms("test"):
            return FailingType.objects.get()

    fails_at(NOW)
    later = fails_at(NOW + timedelta(minutes=14))
    assert later.failing_since == NOW
    assert later.last_failed_at == NOW + timedelta(minutes=14)
    anew = fails_at(NOW + timedelta(minutes=30))
    assert anew.failing_since == NOW + timedelta(minutes=30)
    with all_firms("test"):
        hours = LatencyBucket.objects.filter(span_minutes=60, measure="run")
        assert sorted(hours.values_list("attempts", flat=True)) == [1, 2]
    assert rollups.store()
