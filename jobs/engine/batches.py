"""Batches: jobs enqueued together, with a job for each event: failed, settled, completed.

A member takes its job's state in the transaction that settles the job. Due events are looked for
only after the commit, so that no transaction holds a batch for long: if the last two jobs are
settled at once, the second to commit sees both. The sweep looks for due events too, because a
worker may be killed before it does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.fan_in import fire_each
from jobs.engine.fan_in_rows import job_from_json, job_to_json
from jobs.engine.insert import dispatch_after_commit, dispatch_groups, insert
from jobs.engine.new_job import NewJob
from jobs.engine.replace import insert_or_replace
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.errors import ArgumentsInvalid, Fault
from jobs.models.base import FIRST_ID
from jobs.states import UNCOMPLETED, Status

SWEEP_CHUNK = 500
# The same condition as that of the index `batch_member_uncompleted`.
UNCOMPLETED_SQL = f"state IN ({', '.join(repr(state) for state in UNCOMPLETED)})"
ANY_UNCOMPLETED = f"SELECT 1 FROM jobs_batchmember WHERE {UNCOMPLETED_SQL} LIMIT 1"
_MEMBERS = "SELECT 1 FROM jobs_batchmember m WHERE m.batch_id = b.id AND m."
# The events of a batch, in the order in which their jobs are enqueued, with their conditions.
EVENTS = {
    "failed": f"EXISTS ({_MEMBERS}state = 'failed')",
    "settled": f"NOT EXISTS ({_MEMBERS}state = 'pending')",
    "completed": f"NOT EXISTS ({_MEMBERS}{UNCOMPLETED_SQL})",
}
_DUE = " OR ".join(f"(b.{event}_at IS NULL AND {come})" for event, come in EVENTS.items())
_STATE = """
CASE WHEN j.status IN ('completed', 'canceled') THEN j.status
    WHEN j.status IN ('failed', 'dlq') THEN 'failed' ELSE 'pending' END
"""


class NewBatch(NamedTuple):
    """Validated jobs to store as one batch, with a job for some of EVENTS."""

    batch_id: UUID
    firm_id: int
    name: str
    correlation_id: str
    jobs: Sequence[NewJob]
    callbacks: Mapping[str, NewJob]


def store_batch(batch: NewBatch) -> tuple[list[UUID], frozenset[UUID]] | None:
    """Store the batch; return what `insert_or_replace` does, or None if the firm already has it.

    An existing job becomes a member in its current state.

    Raises:
        ArgumentsInvalid: another firm has a batch of this id.
    """
    return in_transaction(lambda: _store(batch), savepoint=True)


def _store(batch: NewBatch) -> tuple[list[UUID], frozenset[UUID]] | None:
    dialect = dialects.current()
    own_id = dialect.value(Column.UUID, batch.batch_id)
    kept = json.dumps({event: job_to_json(job) for event, job in batch.callbacks.items()})
    new = run(
        f"""
        INSERT INTO jobs_batch (id, firm_id, name, correlation_id, callbacks, created_at)
        VALUES (%s, %s, %s, %s, %s{dialect.json_cast}, {dialect.now_sql()})
        ON CONFLICT (id) DO NOTHING
        """,
        [own_id, batch.firm_id, batch.name, batch.correlation_id, kept],
    )
    if not new:
        _refuse_other_firms(batch)
        return None
    stored, replacing = insert_or_replace(batch.jobs)
    columns = {"member": Column.UUID, "job_id": Column.UUID}
    rows, params = dialect.rows_sql("r", columns, [(uuid7(), one) for one in sorted(set(stored))])
    run(
        f"""
        INSERT INTO jobs_batchmember (id, firm_id, batch_id, job_id, state)
        SELECT r.member, %s, %s, j.job_id, {_STATE} FROM {rows}
        JOIN jobs_jobqueue j ON j.job_id = r.job_id
        """,
        [batch.firm_id, own_id, *params],
    )
    _fire([batch.batch_id])
    return stored, replacing


def _refuse_other_firms(batch: NewBatch) -> None:
    own_id = dialects.current().value(Column.UUID, batch.batch_id)
    found = fetch("SELECT firm_id FROM jobs_batch WHERE id = %s", [own_id])
    if any(row[0] != batch.firm_id for row in found):
        raise ArgumentsInvalid([Fault("batch_id", "taken", "is the id of a different batch")])


def leave_batches(settled: Sequence[tuple[int, UUID, Status]]) -> None:
    """Update the members of these settled jobs (firm, id); after the commit, enqueue what is due.

    Must join the transaction that settles them.
    """
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"firm_id": Column.BIGINT, "job_id": Column.UUID, "state": Column.TEXT},
        [
            (firm_id, job_id, Status.FAILED if status is Status.DLQ else status)
            for firm_id, job_id, status in settled
        ],
    )
    left = fetch(
        f"""
        UPDATE jobs_batchmember AS m SET state = r.state FROM {rows}
        WHERE m.firm_id = r.firm_id AND m.job_id = r.job_id AND m.{UNCOMPLETED_SQL}
        RETURNING batch_id
        """,
        params,
    )
    batches = {dialect.read_uuid(row[0]) for row in left}
    if batches:
        transaction.on_commit(lambda: _fire_due(batches), robust=True)


def sweep_batches(after: UUID | None) -> UUID | None:
    """Give the next uncompleted members their jobs' states; return the last id, None at the end.

    A deleted job counts as canceled. At the end, enqueues the jobs of all batches' due events.
    """
    dialect = dialects.current()
    members = reading(
        lambda: fetch(
            f"""
            SELECT m.id, m.state, j.job_id, {_STATE} FROM (
                SELECT id, job_id, state FROM jobs_batchmember
                WHERE {UNCOMPLETED_SQL} AND id > %s ORDER BY id LIMIT {SWEEP_CHUNK}
            ) AS m LEFT JOIN jobs_jobqueue j ON j.job_id = m.job_id ORDER BY m.id
            """,
            [dialect.value(Column.UUID, after or FIRST_ID)],
        )
    )
    changed = []
    for member, state, job_id, found in members:
        if job_id is None:
            found = "canceled" if state == "pending" else state  # noqa: PLW2901 - the job is gone
        if found != state:
            changed.append((dialect.read_uuid(member), state, found))
    if changed:
        in_transaction(lambda: _change(changed))
    if len(members) == SWEEP_CHUNK:
        last: UUID = dialect.read_uuid(members[-1][0])
        return last
    _fire_due(None)
    return None


def _change(members: Sequence[tuple[UUID, str, str]]) -> None:
    columns = {"id": Column.UUID, "state": Column.TEXT, "next": Column.TEXT}
    rows, params = dialects.current().rows_sql("r", columns, members)
    run(
        f"UPDATE jobs_batchmember AS m SET state = r.next FROM {rows}"
        " WHERE m.id = r.id AND m.state = r.state",
        params,
    )


def _fire_due(batch_ids: Collection[UUID] | None) -> None:
    """Enqueue the jobs of due events of these batches (None: of all), until too many are locked."""
    dialect = dialects.current()
    which, params = "", list[Any]()
    if batch_ids is not None:
        rows, params = dialects.ids_sql(batch_ids)
        which = f"AND b.id IN (SELECT r.id FROM {rows})"
    due = reading(
        lambda: fetch(
            f"SELECT b.id FROM jobs_batch b WHERE b.completed_at IS NULL AND ({_DUE}) {which}"
            f" ORDER BY b.id LIMIT {SWEEP_CHUNK}",
            params,
        )
    )
    found = [dialect.read_uuid(batch_id) for (batch_id,) in due]
    fire_each(found, lambda batch_id: _fire([batch_id]))


def _fire(batch_ids: Sequence[UUID]) -> None:
    """Record the events of these batches that have happened, and enqueue their jobs, each once."""
    dialect = dialects.current()
    rows, params = dialects.ids_sql(batch_ids)
    which = f"b.completed_at IS NULL AND b.id IN (SELECT r.id FROM {rows})"
    fetch(f"SELECT b.id FROM jobs_batch b WHERE {which} ORDER BY b.id {dialect.for_update}", params)
    # A new statement: it sees what the previous holders of the locks committed.
    due = ", ".join(f"b.{event}_at IS NULL AND {come}" for event, come in EVENTS.items())
    found = fetch(
        f"SELECT b.id, b.firm_id, {dialect.json_text_sql('b.callbacks')}, {due} FROM jobs_batch b WHERE {which}",
        params,
    )
    jobs = []
    for batch_id, firm_id, kept, *come in found:
        callbacks = json.loads(kept)
        for event, is_due in zip(EVENTS, come, strict=True):
            if is_due:
                job = job_from_json(callbacks[event], firm_id) if event in callbacks else None
                _note(batch_id, event, job)
                jobs += [job] if job else []
    if jobs:
        dispatch_after_commit(dispatch_groups(jobs))


def _note(batch_id: object, event: str, job: NewJob | None) -> None:
    """Record that the event has happened, and the id of its job, or of the job that has its key."""
    dialect = dialects.current()
    job_id = insert([job])[0] if job else None
    run(
        f"UPDATE jobs_batch SET {event}_at = {dialect.now_sql()}, {event}_job_id = %s WHERE id = %s",
        [dialect.value(Column.UUID, job_id), batch_id],
    )
