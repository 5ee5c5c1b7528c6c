"""Operations on the command line: retry, cancel, reprocess, discard, escalate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model

from jobs.models import DeadLetterQueue, FanIn, JobQueue
from tenants.models import AuditEntry, Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import MembershipFactory
from tests.queue_kit import rows

pytestmark = pytest.mark.req("O-04")

Runner = Callable[..., Any]


@pytest.fixture
def letter(firm: Firm) -> DeadLetterQueue:
    """Return an open dead letter."""
    return DeadLetterQueueFactory(
        original_job=JobQueueFactory(firm=firm, status="dlq", attempts=3), reason="exhausted"
    )


def job_now(pk: Any) -> JobQueue:
    with all_firms("test"):
        job: JobQueue = JobQueue.objects.get(pk=pk)
        return job


def audited() -> list[tuple[str, str, str]]:
    with all_firms("test"):
        return list(AuditEntry.objects.order_by("pk").values_list("act", "door", "reason"))


@pytest.mark.req("J-17", "T-05")
def test_retry_sends_a_failed_job_round_again(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, status="failed", attempts=3)
    done = run("jobs", "retry", str(job.pk), "--reason", "the server is back", "--json")
    assert done.code == 0
    assert (done.json["job_id"], done.json["status"]) == (str(job.pk), "pending")
    assert (job_now(job.pk).attempts, job_now(job.pk).series) == (0, 2)
    assert [(door, reason) for _, door, reason in audited()] == [("cli", "the server is back")]


@pytest.mark.req("J-16")
def test_cancel_stops_a_pending_job_and_asks_a_running_one(run: Runner, firm: Firm) -> None:
    pending, running = JobQueueFactory(firm=firm), JobQueueFactory(firm=firm, status="processing")
    assert run("jobs", "cancel", str(pending.pk), "--json").json["status"] == "canceled"
    asked = run("jobs", "cancel", str(running.pk))
    assert "was asked to stop" in asked.out
    assert job_now(running.pk).cancel_requested_at is not None


@pytest.mark.parametrize(("name", "status"), [("retry", "completed"), ("cancel", "completed")])
def test_a_wrong_status_is_exit_1_and_changes_nothing(
    run: Runner, firm: Firm, name: str, status: str
) -> None:
    job = JobQueueFactory(firm=firm, status=status)
    refused = run("jobs", name, str(job.pk), "--json")
    assert (refused.code, refused.json["code"]) == (1, "wrong_state")
    assert job_now(job.pk).status == status


@pytest.mark.req("D-02")
def test_reprocess_takes_an_edited_payload(
    run: Runner, firm: Firm, letter: DeadLetterQueue
) -> None:
    twice = run("dlq", "reprocess", str(letter.pk), "--payload", '{"name": "a", "name": "b"}')
    assert twice.code == 2
    assert "the key 'name' is given twice" in twice.err
    refused = run("dlq", "reprocess", str(letter.pk), "--payload", '{"surprise": 1}', "--json")
    assert (refused.code, refused.json["code"]) == (1, "payload_invalid")
    assert job_now(letter.original_job_id).status == "dlq"
    done = run(
        "dlq", "reprocess", str(letter.pk), "--priority", "0", "--reason", "mended", "--json"
    )
    assert (done.json["resolution"], done.json["resolution_note"]) == ("reprocessed", "mended")
    assert (job_now(letter.original_job_id).status, job_now(letter.original_job_id).priority) == (
        "pending",
        0,
    )


@pytest.mark.req("D-02")
def test_the_older_name_of_a_reason_is_taken(run: Runner, letter: DeadLetterQueue) -> None:
    done = run("dlq", "reprocess", str(letter.pk), "--note", "mended", "--json")
    assert (done.json["resolution"], done.json["resolution_note"]) == ("reprocessed", "mended")


@pytest.mark.req("D-02")
def test_discard_needs_a_reason_and_happens_once(run: Runner, letter: DeadLetterQueue) -> None:
    assert run("dlq", "discard", str(letter.pk)).code == 2
    assert run("dlq", "discard", str(letter.pk), "--reason", " ", "--json").code == 1
    assert run("dlq", "discard", str(letter.pk), "--reason", "obsolete").code == 0
    assert job_now(letter.original_job_id).status == "failed"
    again = run("dlq", "discard", str(letter.pk), "--reason", "obsolete", "--json")
    assert (again.code, again.json["code"]) == (1, "wrong_state")


@pytest.mark.req("D-02")
def test_escalate_assigns_a_member_of_the_firm_alone(
    run: Runner, firm: Firm, other_firm: Firm, letter: DeadLetterQueue
) -> None:
    users = get_user_model().objects
    with all_firms("test"):
        for name, owner in (("ann", firm), ("bob", other_firm)):
            user = users.create_user(name, email=f"{name}@example.org")
            MembershipFactory(firm=owner, user=user, role=Role.OPERATOR)
    stranger = run("dlq", "escalate", str(letter.pk), "--reason", "why?", "--to", "bob")
    assert stranger.code == 3
    done = run("dlq", "escalate", str(letter.pk), "--reason", "why?", "--to", "ann", "--json")
    assert (done.json["resolution"], done.json["assigned_to"]) == ("escalated", "ann")
    again = run("dlq", "escalate", str(letter.pk), "--reason", "not ann", "--json")
    assert (again.code, again.json["code"]) == (1, "wrong_state")
    said = f"dead letter {letter.pk} was escalated already, to ann: reprocess or discard it"
    assert again.json["detail"] == said
    assert run("dlq", "discard", str(letter.pk), "--reason", "obsolete").code == 0


@pytest.mark.req("D-02")
def test_an_escalation_that_tells_nobody_stands_and_says_so(
    run: Runner, letter: DeadLetterQueue
) -> None:
    done = run("dlq", "escalate", str(letter.pk), "--reason", "why?", "--json")
    assert (done.code, done.json["resolution"]) == (0, "escalated")
    assert "Nobody was told" in done.err


def test_operations_on_unknown_ids_are_exit_3(
    run: Runner, other_firm: Firm, letter: DeadLetterQueue
) -> None:
    for name in ("retry", "cancel"):
        assert run("jobs", name, str(uuid4())).code == 3
    for name in ("discard", "escalate"):
        assert run("dlq", name, str(uuid4()), "--reason", "x").code == 3
    foreign = ("--reason", "x", "--firm", "globex")
    assert run("dlq", "discard", str(letter.pk), *foreign).code == 3
    assert job_now(letter.original_job_id).status == "dlq"


@pytest.mark.req("O-08", "T-05")
def test_edit_changes_a_waiting_job(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm)
    text = json.dumps({"correlation_id": job.correlation_id})
    when = ("--at", "2099-01-31T09:00:00Z", "--payload", text)
    done = run("jobs", "edit", str(job.pk), "--priority", "0", *when, "--reason", "later", "--json")
    assert (done.code, done.json["priority"]) == (0, 0)
    assert done.json["scheduled_at"] == "2099-01-31T09:00:00.000Z"
    assert audited() == [("job.edit", "cli", "later")]
    assert "is due 2" in run("jobs", "edit", str(job.pk), "--at", "now").out
    assert job_now(job.pk).scheduled_at.year < 2099
    refused = run("jobs", "edit", str(job.pk), "--payload", '{"surprise": 1}', "--json")
    assert (refused.code, refused.json["errors"][0]["field"]) == (1, "surprise")
    nothing = run("jobs", "edit", str(job.pk), "--json")
    assert (nothing.code, nothing.json["code"]) == (1, "edit_invalid")
    assert run("jobs", "edit", str(job.pk), "--at", "soon").code == 2


@pytest.mark.req("O-08")
def test_edit_refuses_what_a_worker_has(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, status="claimed")
    refused = run("jobs", "edit", str(job.pk), "--priority", "0", "--json")
    assert (refused.code, refused.json["code"]) == (1, "wrong_state")
    assert run("jobs", "edit", str(uuid4()), "--priority", "0").code == 3


@pytest.mark.req("T-05")
def test_several_ids_are_operated_on_each_alone(run: Runner, firm: Firm) -> None:
    failed = [JobQueueFactory(firm=firm, status="failed") for _ in range(2)]
    over = JobQueueFactory(firm=firm, status="completed")
    ids = [str(failed[0].pk), str(over.pk), str(uuid4()), str(failed[1].pk), str(failed[0].pk)]
    done = run("jobs", "retry", *ids, "--reason", "again", "--json")
    assert done.code == 3
    assert [row["job_id"] for row in done.json["results"]] == [str(job.pk) for job in failed]
    assert [(one["id"], one["code"]) for one in done.json["errors"]] == [
        (ids[1], "wrong_state"), (ids[2], "not_found"),
    ]  # fmt: skip
    assert [job_now(job.pk).status for job in failed] == ["pending", "pending"]
    assert [reason for _, _, reason in audited()] == ["again", "again"]


def test_several_ids_are_answered_line_by_line(run: Runner, firm: Firm) -> None:
    letters = [
        DeadLetterQueueFactory(original_job=JobQueueFactory(firm=firm, status="dlq"))
        for _ in range(2)
    ]
    ids = [str(letter.pk) for letter in letters]
    done = run("dlq", "discard", *ids, "--reason", "old")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    again = run("dlq", "reprocess", *ids)
    assert (again.code, again.out, "2 of 2 were refused" in again.err) == (1, "", True)


@pytest.mark.req("J-03")
def test_a_function_of_the_type_that_raises_refuses_the_job(
    run: Runner, firm: Firm, job_types: Any
) -> None:
    def fail(payload: object) -> str:
        raise KeyError("Ada")

    job_types["noop"] = replace(job_types["noop"], lock_key=fail)
    refused = run("jobs", "enqueue", "noop", "--json")
    assert (refused.code, refused.json["errors"][0]["field"]) == (1, "lock_key")
    assert "Ada" not in refused.out + refused.err


@pytest.mark.req("A-02")
def test_a_chain_is_enqueued(run: Runner, firm: Firm) -> None:
    links = '[{"job_type": "noop", "priority": 0}, {"job_type": "noop", "delay": 60}]'
    shown = run("jobs", "chain", links, "--firm", "acme")
    assert "then noop" in shown.out
    (first,) = rows(JobQueue)
    assert first.priority == 0
    (then,) = rows(FanIn)
    assert (then.job_type, then.delay, then.parent_id) == ("noop", 60, first.pk)


@pytest.mark.req("A-02")
@pytest.mark.parametrize(
    ("links", "code", "message"),
    [
        ("{}", 2, "a JSON list"),
        ('[{"job_type": "noop", "colour": "red"}]', 2, "'colour' is unknown"),
        ('[{"job_type": "noop", "priority": "high"}]', 2, "another type"),
        ('[{"payload": {}}]', 2, "job_type is missing"),
        ('[{"job_type": "noop"}, {"job_type": "nope"}]', 1, "jobs.1.job_type"),
        ("[]", 1, "must be 1 to 100"),
    ],
)
def test_a_wrong_chain_is_refused(
    run: Runner, firm: Firm, links: str, code: int, message: str
) -> None:
    refused = run("jobs", "chain", links, "--firm", "acme")
    assert (refused.code, message in refused.err, rows(JobQueue)) == (code, True, [])
