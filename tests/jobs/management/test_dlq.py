"""`manage.py dlq`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone

from jobs.engine.clock import database_now
from jobs.models import DeadLetterQueue, JobQueue
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import FirmFactory

pytestmark = pytest.mark.req("O-04", "D-01")

ROW = {
    "id", "job_id", "firm", "category", "job_type", "reason", "error_class", "error",
    "fingerprint", "moved_at", "resolution", "resolution_note", "reviewed_by", "reviewed_at",
    "assigned_to",
}  # fmt: skip

Runner = Callable[..., Any]


def bury(firm: Firm, *, category: str = "export", **columns: Any) -> DeadLetterQueue:
    """Store a dead job and its dead letter."""
    job = JobQueueFactory(firm=firm, status="dlq", category=category)
    return DeadLetterQueueFactory(original_job=job, **{"reason": "exhausted", **columns})


def test_a_list_has_the_documented_shape(run: Runner, firm: Firm) -> None:
    row = bury(firm, error_class="ValueError", error="it broke", fingerprint="abc")
    page = run("dlq", "list", "--json").json
    assert page["next"] is None
    [shown] = page["results"]
    assert shown.keys() == ROW
    assert (shown["id"], shown["job_id"]) == (str(row.pk), str(row.original_job_id))
    assert (shown["firm"], shown["category"], shown["reason"]) == ("acme", "export", "exhausted")
    assert (shown["resolution"], shown["reviewed_by"], shown["assigned_to"]) == (None, None, None)
    assert run("dlq", "show", str(row.pk), "--json").json == shown


def test_cursors_walk_rows_moved_in_the_same_instant(run: Runner, firm: Firm) -> None:
    moved = timezone.now()
    rows = {str(bury(firm, moved_at=moved).pk) for _ in range(5)}
    first = run("dlq", "list", "--limit", "3", "--json").json
    rest = run("dlq", "list", "--limit", "3", "--cursor", first["next"], "--json").json
    seen = [row["id"] for row in first["results"] + rest["results"]]
    assert rest["next"] is None
    assert (len(seen), set(seen)) == (5, rows)


@pytest.mark.parametrize("ahead", [-10, 10])
def test_a_span_ends_at_the_databases_time(run: Runner, firm: Firm, ahead: int) -> None:
    for minutes in (55, 65):
        bury(firm, moved_at=database_now() - timedelta(minutes=minutes))
    with time_machine.travel(timezone.now() + timedelta(minutes=ahead)):
        assert len(run("dlq", "list", "--since", "1h", "--json").json["results"]) == 1
        assert (
            run(
                "dlq",
                "bulk",
                "discard",
                "--since",
                "1h",
                "--firm",
                "acme",
                "--reason",
                "old",
                "--json",
            ).json["count"]
            == 1
        )


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (("--resolution", "open"), 2),
        (("--status", "open"), 2),
        (("--status", "discarded"), 1),
        (("--reason", "poison"), 1),
        (("--category", "sync"), 1),
        (("--type", "nope"), 0),
        (("--since", "1h"), 2),
        (("--firm", "globex"), 1),
        (("--fingerprint", "feed"), 1),
        (("--search", "feed"), 1),
    ],
)
def test_each_filter_narrows_the_list(
    run: Runner, firm: Firm, other_firm: Firm, arguments: tuple[str, str], count: int
) -> None:
    bury(firm, resolution="escalated", reason="poison")
    bury(firm, resolution="discarded", moved_at=timezone.now() - timedelta(days=1))
    bury(other_firm, category="sync", fingerprint="feed")
    assert len(run("dlq", "list", "--json", *arguments).json["results"]) == count


def test_what_does_not_exist_is_exit_3_and_wrong_usage_exit_2(
    run: Runner, firm: Firm, other_firm: Firm
) -> None:
    row = bury(other_firm)
    assert run("dlq", "show", str(uuid4())).code == 3
    assert run("dlq", "show", str(row.pk), "--firm", "acme").code == 3
    assert run("dlq", "list", "--cursor", "e30").code == 2
    assert run("dlq", "list", "--reason", "bad luck").code == 2


def test_people_get_tables(run: Runner, firm: Firm) -> None:
    row = bury(firm, error_class="ValueError", error="it broke")
    assert str(row.pk) in run("dlq", "list").out
    shown = run("dlq", "show", str(row.pk)).out
    assert "it broke" in shown
    assert f"jobs show {row.original_job_id}" in shown
    assert "No dead letters." in run("dlq", "list", "--status", "discarded").out


def test_the_table_says_whose_each_is(run: Runner, firm: Firm) -> None:
    rows = [bury(firm), bury(FirmFactory(slug="globex"))]
    lines = {line.split()[0]: line.split() for line in run("dlq", "list").out.splitlines() if line}
    assert [row.firm.slug in lines[str(row.pk)] for row in rows] == [True, True]


def test_tables_show_the_name_of_an_errors_class_and_the_page_its_whole_path(
    run: Runner, firm: Firm
) -> None:
    path = "shop.errors.PartnerAway"
    row = bury(firm, error_class=path, error="it broke", fingerprint="feed")
    for table in (("list",), ("groups",)):
        out = run("dlq", *table).out
        assert "PartnerAway: it broke" in out, table
        assert path not in out, table
    counted = run("dlq", "bulk", "reprocess", "--firm", "acme", "--all").out
    assert "PartnerAway" in counted
    assert path not in counted
    assert path in run("dlq", "show", str(row.pk)).out
    assert run("dlq", "list", "--json").json["results"][0]["error_class"] == path


@pytest.mark.req("T-04")
def test_what_is_left_of_a_firm_that_is_gone_is_shown(run: Runner, firm: Firm) -> None:
    bury(firm, error_class="ValueError", error="it broke", fingerprint="abc")
    with all_firms("test"):
        for model in (JobQueue, DeadLetterQueue):
            model.objects.update(firm_id=999_999)
    assert "999999 (gone)" in run("jobs", "list").out
    assert "999999 (gone)" in run("dlq", "list").out
    assert "it broke" in run("dlq", "groups").out
