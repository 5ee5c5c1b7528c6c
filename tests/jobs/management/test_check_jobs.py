"""`manage.py check_jobs`: whether this code can read the jobs that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.engine import unreadable
from jobs.queue import EnqueueSpec, enqueue_batch, enqueue_chain
from jobs.registry import JobPayload, job
from jobs.states import LIVE, Status
from tenants.models import Firm
from tests.factories.jobs import JobQueueFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-04", "O-04")]

Runner = Callable[..., Any]


class GreetPayload(JobPayload):
    """The payload of the tests' type."""

    name: str


def declare(**options: Any) -> None:
    def greet(payload: GreetPayload, ctx: object) -> None: ...

    job("test.greet", category="notifications", payload=GreetPayload, **options)(greet)


def greeting(firm: Firm, version: str = "1.0", **fields: Any) -> str:
    """Store a job of the tests' type and return its id."""
    payload = {"tenant_id": firm.pk, "version": version, "correlation_id": "c-1", **fields}
    made = JobQueueFactory(
        firm=firm, job_type="test.greet", payload_version=version, payload=payload
    )
    return str(made.pk)


def test_all_can_be_read(run: Runner, firm: Firm) -> None:
    for status in Status:
        JobQueueFactory(firm=firm, status=status)
    checked = len(LIVE) + 1
    assert run("check_jobs", "--json").json == {"checked": checked, "unreadable": []}
    plain = run("check_jobs")
    assert (plain.code, plain.out) == (
        0,
        f"All {checked} live and dead-lettered jobs can be read.\n",
    )


@pytest.mark.parametrize("status", [*sorted(LIVE), Status.DLQ])
def test_a_type_that_is_gone_is_named(run: Runner, firm: Firm, status: Status) -> None:
    JobQueueFactory(firm=firm)
    lost = JobQueueFactory(firm=firm, status=status, job_type="test.gone")
    found = run("check_jobs", "--json")
    assert found.code == 1
    assert found.json == {
        "checked": 2,
        "unreadable": [
            {
                "job_id": str(lost.pk),
                "job_type": "test.gone",
                "payload_version": "1.0",
                "why": "unknown type",
            }
        ],
    }
    assert found.err == "1 of 2 jobs cannot be read by this code"
    plain = run("check_jobs")
    assert plain.code == 1
    assert all(word in plain.out for word in (str(lost.pk), "test.gone", "unknown type"))


def test_people_get_a_line_for_each_cause(run: Runner, firm: Firm) -> None:
    one = JobQueueFactory(firm=firm, job_type="test.other")
    several = [JobQueueFactory(firm=firm, job_type="test.gone") for _ in range(3)]
    heading, *lines = [line.split() for line in run("check_jobs").out.splitlines() if line]
    assert heading == ["Jobs", "Type", "Version", "Oldest", "Why"]
    assert [line[:2] + line[3:] for line in lines] == [
        ["3", "test.gone", str(several[0].pk), "unknown", "type"],
        ["1", "test.other", str(one.pk), "unknown", "type"],
    ]


def test_what_is_over_need_not_be_read(run: Runner, firm: Firm) -> None:
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELED):
        JobQueueFactory(firm=firm, status=status, job_type="test.gone")
    found = run("check_jobs", "--json")
    assert (found.code, found.json) == (0, {"checked": 0, "unreadable": []})


@pytest.mark.usefixtures("job_types")
def test_a_version_without_an_upcaster_is_named(run: Runner, firm: Firm) -> None:
    declare(version="3.0", upcasters={"2.0": lambda payload: {**payload, "name": "Ada"}})
    old, _, _ = greeting(firm, "1.0"), greeting(firm, "2.0"), greeting(firm, "3.0", name="Ada")
    found = run("check_jobs", "--json")
    assert (found.code, found.json["checked"]) == (1, 3)
    ((shown,),) = [found.json["unreadable"]]
    assert (shown["job_id"], shown["payload_version"]) == (old, "1.0")
    assert shown["why"].startswith("version: ")


@pytest.mark.usefixtures("job_types")
def test_a_field_that_the_code_now_needs_is_named(run: Runner, firm: Firm) -> None:
    declare()
    greeting(firm, name="Ada")
    bad = greeting(firm)
    found = run("check_jobs", "--json")
    assert found.code == 1
    assert [(one["job_id"], one["why"]) for one in found.json["unreadable"]] == [
        (bad, "name: missing")
    ]


def test_every_job_is_looked_at(
    run: Runner, firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable, "CHUNK", 2)
    lost = [
        JobQueueFactory(firm=one, job_type="test.gone")
        for one in (firm, other_firm)
        for _ in range(3)
    ]
    found = run("check_jobs", "--json").json
    assert found["checked"] == len(lost)
    assert [one["job_id"] for one in found["unreadable"]] == [str(one.pk) for one in lost]


@pytest.mark.usefixtures("job_types")
def test_jobs_that_are_still_to_be_enqueued_are_looked_at(
    run: Runner, firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable, "CHUNK", 2)
    declare()
    now, old = EnqueueSpec("noop"), EnqueueSpec("test.greet", {"name": "Ada"})
    chains = [enqueue_chain([now, old, now, old], firm=firm).job_id for _ in range(3)]
    batches = [enqueue_batch([now, now], on_completed=old, firm=firm) for _ in range(3)]
    batch = enqueue_batch([now], on_failed=now, on_settled=old, on_completed=old, firm=firm)
    assert run("check_jobs", "--json").json == {"checked": 10 + 9 + 3 + 3, "unreadable": []}
    declare(version="2.0")
    found = run("check_jobs", "--json")
    assert found.code == 1
    followed = [(str(first), "follows it") for first in chains for _ in range(2)]
    followed += [(str(one.jobs[0].job_id), "follows its batch") for one in (*batches, batch, batch)]
    version = "version: unknown_version"
    shown = [(one["job_id"], one["why"]) for one in found.json["unreadable"]]
    assert shown == [(job_id, f"{version}, {what}") for job_id, what in followed]


@pytest.mark.usefixtures("job_types")
def test_what_has_been_enqueued_after_a_batch_need_not_be_read_again(
    run: Runner, firm: Firm
) -> None:
    declare()
    enqueue_batch([], on_completed=EnqueueSpec("test.greet", {"name": "Ada"}), firm=firm)
    assert run("check_jobs", "--json").json["checked"] == 1
