"""Alerts: one per firm for each new failure, and for dead letters that nobody reviews."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.execution import telemetry
from jobs.models import DeadLetterQueue, FailureAlert, JobQueue, NotificationEndpoint, Schedule
from jobs.operations.dead_letters import discard, escalate, reprocess
from jobs.operations.endpoints import change_endpoint, create_endpoint
from jobs.operations.notifications import alerts
from jobs.operations.notifications.alerts import alert_new_failures
from jobs.schedules.defaults import store_default_schedules
from jobs.testing import drain, run_job
from jobs.testing.clock import frozen_time
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.support.receiver import Receiver

pytestmark = [pytest.mark.req("D-04"), pytest.mark.django_db]

ALERTS = ["alert.new_failure", "alert.unreviewed"]


def die(firm: Firm, fingerprint: str = "f1", number: int = 1, **columns: Any) -> DeadLetterQueue:
    """Give the firm `number` dead letters; return the last."""
    for _ in range(number):
        dead = JobQueueFactory(firm=firm, job_type="sync", category="sync", status="dlq")
        letter = DeadLetterQueueFactory(
            original_job=dead,
            error_class="mail.errors.GmailUnavailable",
            error="the cause",
            fingerprint=fingerprint,
            **columns,
        )
    return letter


def endpoint_of(firm: Firm | None, channel: str = "webhook", **options: Any) -> Any:
    """Create an endpoint for the alerts of the firm, or of the platform if `firm` is None."""
    target = "https://hooks.example/x" if channel == "webhook" else "ops@example.org"
    options = {"events": ALERTS, **options}
    return create_endpoint(f"{channel} {firm}", channel, target, firm=firm, **options)


def sent(**columns: Any) -> list[JobQueue]:
    """Return the jobs that send notifications, oldest first."""
    with all_firms("test"):
        rows = JobQueue.objects.filter(category="notifications", **columns)
        return list(rows.select_related("firm").order_by("pk"))


def killed(work: Callable[[], Any]) -> None:
    """Do the work in a transaction that is interrupted before its commit."""

    def work_and_die() -> None:
        with transaction.atomic():
            work()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work_and_die()


@pytest.fixture
def logged() -> Any:
    """Return the alerts that are logged from now on."""
    lines: list[tuple[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            telemetry, "log", lambda name, fields, **_: lines.append((name, dict(fields)))
        )
        yield lines


def test_400_failures_are_one_alert(
    firm: Firm, system_firm: Firm, logged: list[tuple[str, Any]]
) -> None:
    endpoint_of(firm)
    endpoint_of(firm, "email")
    die(firm, number=40)
    assert run_job("dlq_alert", firm=system_firm).result == {"dead_letters": 40}
    first = [(job.job_type, job.firm) for job in sent()]
    assert first == [("webhook_send", firm), ("email_send", firm)]
    die(firm, number=3)
    run_job("dlq_alert", firm=system_firm)
    assert len(sent()) == 2
    (failure,) = sent(job_type="webhook_send")[0].payload["data"]["failures"]
    assert (failure["count"], failure["job_type"], failure["cause"]) == (40, "sync", "the cause")
    assert failure["firms"] == ["acme"]
    assert "resolution=open&q=f1" in failure["link"]
    alerted = [fields for name, fields in logged if name == "dead_letter.new_failure"]
    assert [(one["tenant_id"], one["fingerprint"]) for one in alerted] == [(firm.pk, "f1")]
    assert "the cause" not in str(alerted)


def test_the_mail_names_type_cause_count_firm_and_link(
    firm: Firm, settings: Any, mailoutbox: list[Any]
) -> None:
    settings.SITE_URL = "https://mailroom.example"
    endpoint_of(firm, "email")
    die(firm, number=2)
    alert_new_failures()
    drain()
    (mail,) = mailoutbox
    assert mail.subject == "[Mailroom] Acme: new failure: sync (GmailUnavailable)"
    for said in ("sync", "the cause", "2 dead letters", "acme"):
        assert said in mail.body
    page = "https://mailroom.example/admin/jobs/deadletterqueue/?resolution=open&q=f1"
    assert page in mail.body


def test_each_fingerprint_and_each_firm_is_alerted_to(firm: Firm, other_firm: Firm) -> None:
    endpoint_of(firm)
    endpoint_of(other_firm)
    die(firm, "f1")
    die(firm, "f2")
    die(other_firm, "f1")
    alert_new_failures()
    told = {job.firm.slug: job.payload["data"] for job in sent()}
    assert {slug: len(data["failures"]) for slug, data in told.items()} == {"acme": 2, "globex": 1}
    assert "globex" not in str(told["acme"])
    assert "acme" not in str(told["globex"])


def test_the_platform_is_alerted_once_to_a_failure_of_many_firms(
    firm: Firm, other_firm: Firm, system_firm: Firm
) -> None:
    endpoint_of(None)
    die(firm, number=2)
    die(other_firm)
    alert_new_failures()
    die(other_firm)
    alert_new_failures()
    (job,) = sent()
    assert job.firm == system_firm
    (failure,) = job.payload["data"]["failures"]
    assert (failure["count"], failure["firms"]) == (3, ["acme", "globex"])


def test_a_failure_of_the_platform_is_logged_beside_those_of_firms(
    firm: Firm, system_firm: Firm, logged: list[tuple[str, Any]]
) -> None:
    die(firm, "f1")
    die(system_firm, "f2")
    alert_new_failures()
    alerted = {(one["tenant_id"], one["fingerprint"]) for _, one in logged}
    assert alerted == {(firm.pk, "f1"), (system_firm.pk, "f2")}


def test_after_the_quiet_period_a_failure_is_new_again(firm: Firm, settings: Any) -> None:
    settings.ALERT_QUIET_MINUTES = 60
    endpoint_of(firm)
    with frozen_time() as clock:
        for minutes, alerts_so_far in ((0, 1), (59, 1), (2, 2), (1, 2)):
            clock.tick(minutes=minutes)
            die(firm)
            alert_new_failures()
            assert len(sent()) == alerts_so_far


def test_what_nobody_reviews_for_a_day_is_alerted_to_and_again_after_another(
    firm: Firm, system_firm: Firm, logged: list[tuple[str, Any]]
) -> None:
    endpoint_of(firm, events=["alert.unreviewed"])
    with frozen_time() as clock:
        letters = [die(firm, moved_at=clock.now) for _ in range(4)]
        escalate(letters[0], "asked")
        discard(letters[1], "no")
        for hours, alerts_so_far in ((23, 0), (1, 1), (1, 1), (22, 1), (1, 2)):
            clock.tick(hours=hours)
            run_job("dlq_age_alert", firm=system_firm)
            assert len(sent(job_type="webhook_send")) == alerts_so_far
    data = sent(job_type="webhook_send")[0].payload["data"]
    assert [failure["count"] for failure in data["failures"]] == [2]
    lines = [fields for name, fields in logged if name == "dead_letter.unreviewed"]
    assert lines[0] == {"tenant_id": firm.pk, "failures": 1, "dead_letters": 2}


def test_every_failure_that_nobody_reviews_comes_up_however_many_there_are(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "MOST_KEYS", 2)
    endpoint_of(None)
    with frozen_time() as clock:
        for number in range(3):
            die(firm, f"f{number}", moved_at=clock.now)
        die(other_firm, "f0", moved_at=clock.now)
        clock.tick(hours=24)
        while alerts.alert_unreviewed():
            clock.tick(minutes=5)
    told = [one["fingerprint"] for job in sent() for one in job.payload["data"]["failures"]]
    assert sorted(told) == ["f0", "f1", "f2"]
    with all_firms("test"):
        assert FailureAlert.objects.exclude(unreviewed_alerted_at=None).count() == 4 + 3


def test_a_firms_own_job_alerts_to_its_dead_letters_alone_and_hides_none_from_the_platform(
    firm: Firm, other_firm: Firm
) -> None:
    for owner in (firm, other_firm, None):
        endpoint_of(owner)
    with frozen_time() as clock:
        for owner in (firm, other_firm):
            die(owner, "same", moved_at=clock.now)
        clock.tick(hours=24)
        run_job("dlq_age_alert", firm=firm)
        assert counts_of(sent()) == {(firm.pk, 1)}
        platform = Firm.objects.system()
        run_job("dlq_age_alert", firm=platform)
    assert counts_of(sent()[1:]) == {(other_firm.pk, 1), (platform.pk, 2)}


def counts_of(notices: list[JobQueue]) -> set[tuple[int, int]]:
    """Return who is told of how many dead letters."""
    return {
        (job.firm_id, sum(one["count"] for one in job.payload["data"]["failures"]))
        for job in notices
    }


def test_only_who_subscribed_and_is_enabled_is_notified(firm: Firm) -> None:
    endpoint_of(firm, events=["dead_letter.escalated"])
    off = endpoint_of(firm, "email")
    change_endpoint(off, enabled=False)
    die(firm)
    alert_new_failures()
    assert sent() == []


def test_a_sweep_that_is_killed_before_its_commit_leaves_all_to_the_next(firm: Firm) -> None:
    endpoint_of(firm)
    die(firm)
    killed(alert_new_failures)
    assert sent() == []
    assert alert_new_failures() == 1
    assert len(sent()) == 1
    assert alert_new_failures() == 0


def test_every_letter_is_taken_in_however_many_there_are(
    firm: Firm, monkeypatch: pytest.MonkeyPatch, system_firm: Firm
) -> None:
    monkeypatch.setattr(alerts, "BATCH", 2)
    endpoint_of(firm)
    die(firm, number=5)
    assert run_job("dlq_alert", firm=system_firm).result == {"dead_letters": 5}
    assert len(sent()) == 1


def test_the_alerts_of_failed_alerts_do_not_feed_themselves(
    firm: Firm, hook: Receiver, settings: Any
) -> None:
    create_endpoint(
        "p", "webhook", hook.url, firm=firm, events=["alert.new_failure", "dead_letter.opened"]
    )
    for _ in range(20):
        hook.answer(410)
    die(firm)
    for _ in range(5):
        alert_new_failures()
        drain()
    # The first failure and its dead letter, then one alert that webhooks fail.
    assert len(hook.received) == 3


@pytest.mark.req("S-02")
def test_the_schedules_of_both_alerts_are_stored_with_the_settings_intervals(
    system_firm: Firm, settings: Any
) -> None:
    settings.ALERT_INTERVAL_SECONDS, settings.ALERT_AGE_INTERVAL_MINUTES = 45, 7
    store_default_schedules()
    with all_firms("test"):
        rows = dict(Schedule.objects.values_list("job_type", "interval_seconds"))
    assert (rows["dlq_alert"], rows["dlq_age_alert"]) == (45, 420)


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite has one writer at a time")
def test_two_workers_that_race_make_one_alert(firm: Firm) -> None:
    endpoint_of(firm)
    die(firm, number=6)
    barrier = threading.Barrier(2, timeout=30)
    real = alerts._due

    def due(*args: Any) -> Any:
        # Both threads have taken in letters of the failure, and neither has committed.
        barrier.wait()
        return real(*args)

    found: list[int] = []

    def work() -> None:
        try:
            found.append(alert_new_failures())
        finally:
            connection.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alerts, "BATCH", 3)
        patch.setattr(alerts, "_due", due)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [3, 3]
    assert len(sent()) == 1
    with all_firms("test"):
        assert FailureAlert.objects.filter(firm=firm).count() == 1


EVENTS: dict[str, Callable[[DeadLetterQueue], Any]] = {
    "dead_letter.reprocessed": reprocess,
    "dead_letter.discarded": lambda letter: discard(letter, "no"),
    "dead_letter.escalated": lambda letter: escalate(letter, "asked"),
    "dead_letter.opened": lambda _: alert_new_failures(),
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_webhook_on_each_change_of_a_dead_letter(
    firm: Firm, other_firm: Firm, event: str, hook: Receiver
) -> None:
    options = {"events": [event], "firm": firm}
    create_endpoint("hook", "webhook", hook.url, **options)
    create_endpoint("platform", "webhook", hook.url, events=[event], firm=None)
    create_endpoint("other", "webhook", hook.url, events=[event], firm=other_firm)
    letter = die(firm)
    with all_firms("test"):
        JobQueue.objects.filter(pk=letter.original_job_id).update(job_type="noop")
    EVENTS[event](letter)
    assert [job.firm.slug for job in sent(job_type="webhook_send")] == ["acme", "system"]
    drain()
    assert len(hook.received) == 2
    for got in hook.received:
        assert got.json["type"] == event
        assert got.json["data"]["dead_letter_id"] == str(letter.pk)
        assert got.json["data"]["firm"] == "acme"
        assert "the cause" not in got.body.decode()


def test_an_operation_that_is_undone_notifies_nobody(
    firm: Firm, endpoint: NotificationEndpoint
) -> None:
    letter = die(firm)
    killed(lambda: discard(letter, "no"))
    assert sent() == []
    discard(letter, "no")
    assert len(sent()) == 1


def test_a_letter_from_before_the_alerts_is_not_new(firm: Firm) -> None:
    endpoint_of(firm)
    die(firm, alerted=True)
    assert (alert_new_failures(), sent()) == (0, [])


@pytest.mark.parametrize(
    "name", ["Acme\N{NO-BREAK SPACE}Ltd", "Acme\nLtd", "Acme \N{ZERO WIDTH SPACE}Ltd"]
)
def test_a_firms_name_keeps_no_alert_back(firm: Firm, name: str) -> None:
    Firm.objects.filter(pk=firm.pk).update(name=name)
    endpoint_of(firm, "email", events=["dead_letter.opened", *ALERTS])
    die(firm)
    assert alert_new_failures() == 1
    assert [job.payload["subject"] for job in sent()] == [
        "[Mailroom] Acme Ltd: dead letter opened: sync",
        "[Mailroom] Acme Ltd: new failure: sync (GmailUnavailable)",
    ]
