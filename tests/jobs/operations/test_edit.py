"""Editing a waiting job: its priority, its time, its payload, and the keys derived from that."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from jobs.engine.admission import sweep
from jobs.engine.clock import database_now
from jobs.engine.redaction import REDACTED_VALUE
from jobs.errors import EditInvalid, PayloadInvalid, UnknownJob, WrongState
from jobs.models import JobQueue
from jobs.operations.edit import _differs
from jobs.queue import cancel, edit, enqueue
from jobs.registry import JobPayload, job
from jobs.states import Priority
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.jobs.engine.conftest import Add
from tests.queue_kit import locks, row, rows, take, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-08")]


class Colour:
    """A value of a project's own."""

    def __init__(self, name: str) -> None:
        self.name = name


def refused(error: pytest.ExceptionInfo[Any]) -> dict[str, str]:
    return {fault.field: fault.code for fault in error.value.faults}


@pytest.mark.req("T-05")
def test_priority_and_time_are_changed_and_written_down(add: Add) -> None:
    tomorrow = database_now() + timedelta(days=1)
    job_id = add()
    was = row(job_id).scheduled_at
    done = edit(job_id, priority=Priority.CRITICAL, scheduled_at=tomorrow, reason="not today")
    assert (done.status, done.priority, done.scheduled_at) == ("pending", 0, tomorrow)
    assert take() == []
    (entry,) = rows(AuditEntry)
    assert (entry.act, entry.reason) == ("job.edit", "not today")
    assert entry.before == {"priority": 2, "scheduled_at": was.isoformat()}
    assert entry.after == {"priority": 0, "scheduled_at": tomorrow.isoformat()}


def test_a_later_job_runs_now(add: Add) -> None:
    job_id = add(at=database_now() + timedelta(days=1))
    assert take() == []
    edit(job_id, run_now=True)
    assert take_one().job_id == job_id


@pytest.mark.req("T-05", "J-03")
def test_the_payload_is_changed_and_only_the_difference_is_written_down(add: Add) -> None:
    job_id = add(name="Ada", units=3)
    edit(job_id, payload={"name": "Grace", "units": 3})
    assert {"name": "Grace", "units": 3}.items() <= row(job_id).payload.items()
    (entry,) = rows(AuditEntry)
    assert (entry.before, entry.after) == (
        {"payload": {"name": "Ada"}},
        {"payload": {"name": "Grace"}},
    )
    assert '"Grace"' in take_one().payload


def test_an_edit_that_changes_nothing_writes_nothing(add: Add) -> None:
    job_id = add(name="Ada")
    before = row(job_id)
    edit(job_id, priority=Priority.NORMAL, payload={"name": "Ada", "units": 1})
    edit(job_id, payload=row(job_id).payload)
    assert row(job_id).scheduled_at == before.scheduled_at
    assert len(rows(AuditEntry)) == 1  # Before, the units had the schema's default.


@pytest.mark.parametrize(
    ("name", "value", "differs"),
    [
        ("payload", {"a": 1, "b": [2]}, False),
        ("payload", {"b": [2], "a": 1}, False),
        ("payload", {"a": True, "b": [2]}, True),
        ("payload", {"a": 1, "b": [2.0]}, True),
        ("payload", {"a": 1}, True),
        ("priority", 2, False),
        ("priority", 1, True),
    ],
)
def test_a_payload_is_another_if_its_json_is(name: str, value: Any, differs: bool) -> None:
    waiting = JobQueue(payload={"a": 1, "b": [2]}, priority=2)
    assert _differs(waiting, name, value) is differs


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"extra": 1}, {"extra": "unknown_field"}),
        ({"units": "three"}, {"units": "wrong_type"}),
        ({"units": 0}, {"limit_units": "out_of_range"}),
        ({"tenant_id": 999_999}, {"tenant_id": "foreign_tenant"}),
        ({"name": REDACTED_VALUE}, {"name": "masked"}),
        ({"correlation_id": "another"}, {"correlation_id": "not_possible"}),
    ],
)
def test_a_payload_that_the_schema_refuses_changes_nothing(
    change: dict[str, Any], faults: dict[str, str], add: Add
) -> None:
    job_id = add()
    before = row(job_id)
    with pytest.raises(PayloadInvalid) as error:
        edit(job_id, payload=change, priority=0)
    assert refused(error) == faults
    assert (row(job_id).payload, row(job_id).priority) == (before.payload, before.priority)
    assert rows(AuditEntry) == []


def test_arguments_are_checked(add: Add) -> None:
    soon = database_now() + timedelta(hours=1)
    job_id = add(expires_at=soon)
    for arguments, faults in (
        ({}, {"": "required"}),
        ({"priority": 4}, {"priority": "out_of_range"}),
        ({"scheduled_at": soon.replace(tzinfo=None)}, {"scheduled_at": "naive_time"}),
        ({"scheduled_at": soon}, {"scheduled_at": "after_expiry"}),
        ({"scheduled_at": database_now(), "run_now": True}, {"run_now": "conflict"}),
    ):
        with pytest.raises(EditInvalid) as error:
            edit(job_id, **arguments)  # type: ignore[arg-type]  # the wrong types are tested
        assert refused(error) == faults


@pytest.mark.req("J-20")
def test_the_lock_key_follows_the_payload(add: Add) -> None:
    first = add("test.locked", "a")
    second = add("test.locked", "a")
    assert [lock.lock_key for lock in locks()] == ["a"]
    edit(first, payload={"name": "b"})
    # The old key's slot goes to the job that waited for it; the edited job gets one of the new key.
    assert {lock.lock_key: lock.holder_id for lock in locks()} == {
        "a": f"job:{second}",
        "b": f"job:{first}",
    }
    assert {claim.lock_key for claim in take()} == {"a", "b"}


@pytest.mark.req("J-20")
def test_a_job_put_off_gives_up_its_lock(add: Add) -> None:
    first = add("test.locked", "a")
    second = add("test.locked", "a")
    edit(first, scheduled_at=database_now() + timedelta(hours=1))
    assert [lock.holder_id for lock in locks()] == [f"job:{second}"]
    assert (row(first).ready, row(first).waiting) == (False, True)
    assert take_one().job_id == second


def test_a_higher_priority_alone_keeps_the_lock(add: Add) -> None:
    job_id = add("test.locked", "a")
    (before,) = locks()
    edit(job_id, priority=0)
    (after,) = locks()
    assert (after.pk, after.fencing_token) == (before.pk, before.fencing_token)
    assert take_one().job_id == job_id


def test_the_limit_key_and_its_units_follow_the_payload(add: Add) -> None:
    job_id = add("test.mailbox", "a")
    edit(job_id, payload={"name": "b", "units": 4})
    assert (row(job_id).limit_key, row(job_id).limit_units) == ("b", 4)
    edit(job_id, payload={"name": ""})
    assert (row(job_id).limit_key, row(job_id).limit_units) == (None, 1)
    sweep()
    assert take_one().job_id == job_id


def test_a_key_that_was_given_at_enqueue_stays(add: Add) -> None:
    job_id = add("test.locked", "a", lock_key="mine", limit_key="box")
    edit(job_id, payload={"name": "b"})
    assert (row(job_id).lock_key, row(job_id).limit_key) == ("mine", "box")


def test_an_edit_that_would_change_the_idempotency_key_is_refused(add: Add) -> None:
    job_id = add("test.named", "a")
    with pytest.raises(PayloadInvalid, match="from 'named:a' to 'named:b'") as error:
        edit(job_id, payload={"name": "b"})
    assert refused(error) == {"payload": "changes_idempotency_key"}
    assert row(job_id).live_key == "named:a"
    edit(job_id, payload={"name": "a", "units": 2})
    given = add("test.named", "c", idempotency_key="mine")
    edit(given, payload={"name": "d"})
    assert row(given).idempotency_key == "mine"


@pytest.mark.req("J-07")
@pytest.mark.parametrize(
    ("job_type", "options"),
    [("test.once", {}), ("test.work", {"unique_for": 3600})],
    ids=["once only", "unique for a time"],
)
def test_a_payload_that_is_itself_the_idempotency_key_cannot_be_edited(
    add: Add, job_type: str, options: dict[str, Any]
) -> None:
    job_id = add(job_type, "a", **options)
    key = row(job_id).live_key
    with pytest.raises(PayloadInvalid) as error:
        edit(job_id, payload={"name": "b"})
    assert refused(error) == {"payload": "changes_idempotency_key"}
    edit(job_id, payload={"name": "a"}, priority=Priority.HIGH)
    assert (row(job_id).payload["name"], row(job_id).live_key) == ("a", key)


@pytest.mark.usefixtures("work_types")
def test_a_payload_with_a_value_that_pydantic_cannot_write_as_json_can_be_edited(
    firm: Firm,
) -> None:
    class Painted(JobPayload):
        colour: Annotated[str, AfterValidator(Colour)]

    @job("test.painted", category="sync", payload=Painted)
    def painted(payload: Painted, ctx: object) -> None:
        pass

    job_id = enqueue("test.painted", {"colour": "red"}, firm=firm).job.pk
    edit(job_id, payload={"colour": "blue"})
    assert row(job_id).payload["colour"] == "blue"


def test_a_payload_that_is_no_longer_read_can_be_mended(add: Add) -> None:
    job_id = add("test.locked", "a")
    with all_firms("test"):
        JobQueue.objects.filter(pk=job_id).update(payload={"old": True})
    edit(job_id, payload={"name": "b"})
    assert row(job_id).lock_key == "b"


def test_a_worker_that_claims_the_job_meanwhile_wins(add: Add) -> None:
    job_id = add()
    as_seen = row(job_id)
    claim = take_one()
    with pytest.raises(WrongState, match="it is claimed"):
        edit(as_seen, priority=0, run_now=True, payload={"name": "late"})
    now = row(job_id)
    assert (now.priority, now.lease_token, now.payload) == (
        Priority.NORMAL,
        claim.lease_token,
        as_seen.payload,
    )
    assert rows(AuditEntry) == []


def test_a_job_that_is_over_cannot_be_edited(add: Add) -> None:
    job_id = add()
    cancel(job_id)
    with pytest.raises(WrongState, match="it is canceled"):
        edit(job_id, priority=0)


@pytest.mark.req("T-03")
def test_another_firms_job_is_unknown(add: Add, other_firm: Firm) -> None:
    job_id = add()
    with firm_scope(other_firm), pytest.raises(UnknownJob):
        edit(job_id, priority=0)
    assert row(job_id).priority == Priority.NORMAL
