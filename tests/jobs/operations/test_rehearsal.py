"""A rehearsal runs a dead job in a process of its own and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from jobs.errors import PayloadInvalid, UnknownJob, WrongState
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations import rehearsal
from jobs.operations.rehearsal import rehearse
from jobs.queue import EnqueueSpec, enqueue_chain
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, envelope
from tests.queue_kit import change, row
from tests.support.databases import database_url
from tests.support.effectjobs import rehearsed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("O-07"),
    pytest.mark.processes,
]

assert rehearsed


@pytest.fixture(autouse=True)
def child_knows_the_types(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process of the rehearsal import the tests' job types."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.support.worker_settings")
    monkeypatch.setenv("DATABASE_URL", database_url())
    monkeypatch.setenv("VAR_DIR", str(settings.VAR_DIR))
    monkeypatch.setenv("JOB_ISOLATED_MEMORY_MB", "1024")
    return


def dead_letter(
    firm: Firm, *acts: str, job_type: str = "effect.rehearsed", folder: Path | str = ""
) -> DeadLetterQueue:
    """Store a dead job whose handler does these acts; return its dead letter."""
    payload = {**envelope(firm.pk), "acts": list(acts), "folder": str(folder)}
    job = JobQueueFactory(
        firm=firm,
        status="dlq",
        job_type=job_type,
        category="export",
        payload=payload,
        attempts=1,
        max_attempts=1,
    )
    letter: DeadLetterQueue = DeadLetterQueueFactory(original_job=job)
    return letter


def database_contents() -> dict[str, Any]:
    """Return the rows of every table but lease tokens, sessions and the index of messages."""
    with all_firms("test"), connection.cursor() as cursor:
        found = {}
        for table in connection.introspection.table_names(cursor):
            if table not in ("jobs_lease_token", "django_session", "mail_search"):
                cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
                found[table] = sorted(map(repr, cursor.fetchall()))
    return found


def targets(report: dict[str, Any]) -> dict[str, list[str]]:
    """Return the targets of the blocked calls by kind."""
    found: dict[str, list[str]] = {}
    for call in report["calls"]:
        found.setdefault(call["kind"], []).append(call["target"])
    return found


def later_jobs(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the type of each job that would be enqueued later, and after what."""
    later = [child for child in report["children"] if child["after"]]
    assert {child["scheduled_at"] for child in later} <= {None}
    return [(child["job_type"], child["after"]) for child in later]


@pytest.mark.req("A-02")
@pytest.mark.parametrize("last_act", ["", "fail", "transaction"])
def test_it_lists_the_jobs_that_a_chain_and_a_fan_in_would_enqueue(
    firm: Firm, last_act: str
) -> None:
    acts = list(filter(None, ["then", last_act]))
    last = EnqueueSpec("effect.rehearsed_soon", {"acts": []})
    chain = [EnqueueSpec("effect.rehearsed", {"acts": acts}), EnqueueSpec("noop"), last]
    job_id = enqueue_chain(chain, firm=firm).job_id
    change(job_id, status="dlq", ready=False, live_key=None)
    report = rehearse(DeadLetterQueueFactory(original_job=row(job_id)))
    its_own = [("noop", "this job is completed"), (last.job_type, "noop is completed")]
    made = [
        ("effect.leaf", "its children are settled"),
        ("noop", "effect.leaf is completed"),
        ("effect.leaf", "noop is completed"),
    ]
    at_once = [child["job_type"] for child in report["children"] if not child["after"]]
    match last_act:
        case "fail":
            assert (at_once, later_jobs(report)) == (["effect.leaf"] * 2, made)
        case "transaction":
            # The completion is part of the transaction, and has enqueued the next job.
            assert at_once == ["effect.leaf", "effect.leaf", "noop"]
            assert sorted(later_jobs(report)) == sorted(made + its_own[1:])
        case _:
            assert (at_once, later_jobs(report)) == (["effect.leaf"] * 2, its_own + made)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="statistics are no table of the schema")
def test_statistics_of_the_planner_are_not_in_its_way(firm: Firm) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    report = rehearse(dead_letter(firm, "schedule"))
    assert report["outcome"] == "completed", report["error"]
    assert "sqlite_stat1" not in {one["table"] for one in report["writes"]}


def test_it_shows_what_the_job_would_do_and_undoes_it(firm: Firm) -> None:
    letter = dead_letter(firm, "schedule", "step", "child", "log", "twice")
    before = database_contents()

    report = rehearse(letter)

    assert report["outcome"] == "completed", report["error"]
    assert report["result"] == {"acts": 5}
    assert report["error"] is None
    written = {one["table"]: one for one in report["writes"]}
    assert written["jobs_schedule"]["inserted"] == 1
    assert len(written["jobs_schedule"]["ids"]) == 1
    assert written["tenants_firm"]["inserted"] >= 1
    assert written["jobs_jobstep"]["inserted"] == 1
    assert [(child["job_type"], child["idempotency_key"]) for child in report["children"]] == [
        ("effect.leaf", "leaf")
    ]
    assert report["steps"] == [{"name": "charge", "was_stored": False, "result": {"amount": 5}}]
    lines = "\n".join(report["log"])
    assert "charged with" in lines
    assert "hunter2" not in lines
    assert "the firm was there" in lines
    assert report["calls"] == []
    assert report["seconds"] >= 0

    after = database_contents()
    entries = set(after.pop("tenants_auditentry")) - set(before.pop("tenants_auditentry"))
    assert len(entries) == 1
    assert after == before
    with all_firms("test"):
        entry = AuditEntry.objects.get()
    assert (entry.act, entry.target_id) == ("dead_letter.rehearse", str(letter.pk))
    assert entry.after["outcome"] == "completed"


def test_calls_are_blocked_and_listed(firm: Firm, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    acts = [*rehearsed.CALLS, "email", "email after"]

    report = rehearse(dead_letter(firm, *acts, folder=tmp_path))

    assert report["outcome"] == "completed", report["error"]
    found = targets(report)
    assert found["network"] == ["mail.example:443", "192.0.2.1:443"]
    assert found["process"] == ["/bin/true", "true"]
    assert sorted(found["file"]) == [str(tmp_path / "file"), str(tmp_path / "kept")]
    # Neither the recipient nor the subject is listed.
    assert found["email"] == ["1 recipient"]
    assert len(found["database"]) == 2
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    firm.refresh_from_db()
    assert firm.name == "Acme"


@pytest.mark.parametrize("act", ["commit", "driver"])
def test_a_handler_cannot_commit_it(firm: Firm, act: str) -> None:
    letter = dead_letter(firm, "schedule", act)
    before = database_contents()

    report = rehearse(letter)

    after = database_contents()
    assert after["jobs_schedule"] == before["jobs_schedule"]
    assert after["jobs_jobqueue"] == before["jobs_jobqueue"]
    if act == "commit":
        assert report["outcome"] == "dead_lettered", report["error"]
        assert "one transaction" in report["error"]["message"]


def test_the_handlers_own_transaction_completes_the_job_inside(firm: Firm) -> None:
    letter = dead_letter(firm, "transaction", "fail")
    before = database_contents()

    report = rehearse(letter)

    assert report["outcome"] == "completed", report["error"]
    assert report["result"] == {"made": 1}
    assert database_contents()["jobs_schedule"] == before["jobs_schedule"]


def test_an_error_comes_with_its_traceback(firm: Firm) -> None:
    report = rehearse(dead_letter(firm, "schedule", "fail"))

    assert report["outcome"] == "dead_lettered", report["error"]
    assert report["error"]["error_class"] == "jobs.errors.Fatal"
    assert "it cannot be done" in report["error"]["message"]
    assert "in _fail" in report["error"]["traceback"]
    assert [one["table"] for one in report["writes"]] == ["jobs_schedule"]


def test_an_async_handler_runs_in_the_same_transaction(firm: Firm) -> None:
    letter = dead_letter(firm, job_type="effect.rehearsed_async")
    before = database_contents()

    report = rehearse(letter)

    assert report["outcome"] == "completed", report["error"]
    assert report["result"] == {"charged": 5, "firm": "acme"}
    assert len(report["children"]) == 1
    assert database_contents()["jobs_jobqueue"] == before["jobs_jobqueue"]


def test_a_handler_that_does_not_end_is_stopped(firm: Firm) -> None:
    report = rehearse(dead_letter(firm, "schedule", "sleep", job_type="effect.rehearsed_soon"))

    assert report["outcome"] == "unfinished"
    assert "time was up before the handler ended" in report["error"]["message"]
    assert [one["table"] for one in report["writes"]] == ["jobs_schedule"]


@pytest.mark.parametrize("act", ["eat", "exit"])
def test_a_handler_that_ends_its_process_ends_nothing_else(firm: Firm, act: str) -> None:
    letter = dead_letter(firm, "schedule", act)
    before = database_contents()

    report = rehearse(letter)

    if act == "exit":
        assert report["outcome"] == "unfinished"
        assert "exit code 3" in report["error"]["message"]
    else:
        # The interpreter itself may have too little memory to report the error.
        assert report["error"]["error_class"] in ("MemoryError", "ProcessDied")
    assert database_contents()["jobs_schedule"] == before["jobs_schedule"]


def test_a_mended_payload_is_tried_and_not_kept(firm: Firm) -> None:
    letter = dead_letter(firm, "fail")
    with firm_scope(firm):
        stored = letter.original_job.payload

    report = rehearse(letter, payload={**stored, "acts": ["step"]})

    assert report["outcome"] == "completed", report["error"]
    with firm_scope(firm):
        job = JobQueue.objects.get(pk=letter.original_job_id)
        entry = AuditEntry.objects.get()
    assert job.payload["acts"] == ["fail"]
    assert entry.before["payload"] == {"acts": ["fail"]}
    assert entry.after["payload"] == {"acts": ["step"]}


def test_it_is_refused_where_it_makes_no_sense(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = dead_letter(firm, "step")
    with pytest.raises(PayloadInvalid):
        rehearse(letter, payload={"acts": 5})
    with firm_scope(other_firm), pytest.raises(UnknownJob):
        rehearse(letter.pk)
    with monkeypatch.context() as patch:
        patch.setattr(rehearsal, "_slots", rehearsal.threading.BoundedSemaphore(1))
        with rehearsal._slots, pytest.raises(WrongState, match="are running"):
            rehearse(letter)
    with all_firms("test"):
        JobQueue.objects.filter(pk=letter.original_job_id).update(status="completed")
    with pytest.raises(WrongState, match="is not dead-lettered"):
        rehearse(letter)
