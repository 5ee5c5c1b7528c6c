"""Enqueues a job once others are settled: completed, failed, canceled or dead-lettered.

A fan-in stores the job to enqueue, validated, and one member for each job it waits for. Settling a
job deletes its members in the same transaction, then locks the fan-ins concerned, and only then, in
a statement of its own, looks for members that are left. Without any the fan-in fires, once.

The lock of a fan-in may last as long as a caller's transaction, so nobody waits for it. Whoever finds
it taken, or members left, checks again after the commit: of two last members settled at once, the
second to commit sees that both are gone. The sweep checks too.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import SHORT_LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.insert import dispatch, dispatch_groups, insert
from jobs.engine.new_job import NewJob
from jobs.engine.replace import insert_or_replace
from jobs.engine.steps import save_step
from jobs.engine.transactions import LockTimeout, fetch, in_transaction, reading, run
from jobs.errors import LeaseLost
from jobs.states import LIVE

SWEEP_CHUNK = 500
MOST_LOCK_TIMEOUTS = 5
COMPLETE_SQL = f"""
SELECT f.id FROM jobs_fanin f
WHERE f.fired_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs_faninmember m WHERE m.fan_in_id = f.id)
ORDER BY f.id LIMIT {SWEEP_CHUNK}
"""
FIRST_ID = UUID(int=0)

# The columns of the job to enqueue.
JOB_COLUMNS = (
    "firm_id",
    "parent_id",
    "category",
    "job_type",
    "payload_version",
    "payload",
    "correlation_id",
    "priority",
    "max_attempts",
    "lock_key",
    "lock_limit",
    "limit_key",
    "limit_units",
    "idempotency_key",
    "once_only",
    "unique_for",
)


def fan_out(claim: Claim, name: str, children: Sequence[NewJob], then: NewJob) -> list[UUID]:
    """Store the children, and `then` to be enqueued when they are settled; at once without any.

    One transaction stores them and the step `name`. Returns the id of each child, which is that of
    an existing job with its idempotency key, if there is one (see `insert`); children that are
    settled already are not waited for.

    Raises:
        LeaseLost: the job is no longer this claim's; nothing was stored.
    """
    return in_transaction(lambda: _fan_out(claim, name, children, then), savepoint=True)


def _fan_out(claim: Claim, name: str, children: Sequence[NewJob], then: NewJob) -> list[UUID]:
    stored, _ = insert_or_replace(children)
    results = [
        [str(job_id), job_id == child.job_id]
        for job_id, child in zip(stored, children, strict=True)
    ]
    if not save_step(claim, name, results):
        raise LeaseLost(f"job {claim.job_id} belongs to another worker now")
    fan_in_id = _open(name, then)
    _add_members(fan_in_id, then.firm_id, set(stored))
    _fire([fan_in_id])
    return stored


def _open(name: str, then: NewJob) -> UUID:
    dialect = dialects.current()
    fan_in_id: UUID = uuid7()
    values = ", ".join(
        f"%s{dialect.json_cast if column == 'payload' else ''}" for column in JOB_COLUMNS
    )
    kept = [getattr(then, column) for column in JOB_COLUMNS]
    kept[JOB_COLUMNS.index("parent_id")] = dialect.value(Column.UUID, then.parent_id)
    run(
        f"""
        INSERT INTO jobs_fanin (id, name, created_at, {", ".join(JOB_COLUMNS)})
        VALUES (%s, %s, {dialect.now_sql()}, {values})
        """,
        [dialect.value(Column.UUID, fan_in_id), name, *kept],
    )
    return fan_in_id


def _add_members(fan_in_id: UUID, firm_id: int, job_ids: Collection[UUID]) -> None:
    """Add those of these jobs that are live.

    An existing job may be settled by others before this commits: the sweep finds its member.
    """
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"member": Column.UUID, "job_id": Column.UUID},
        [(uuid7(), job_id) for job_id in sorted(job_ids)],
    )
    run(
        f"""
        INSERT INTO jobs_faninmember (id, firm_id, fan_in_id, job_id)
        SELECT r.member, %s, %s, j.job_id FROM {rows}
        JOIN jobs_jobqueue j ON j.job_id = r.job_id WHERE j.status IN ({_live()})
        """,
        [firm_id, dialect.value(Column.UUID, fan_in_id), *params],
    )


ANY_MEMBER = "SELECT 1 FROM jobs_faninmember LIMIT 1"


def leave_fan_ins(jobs: Iterable[tuple[int, UUID]]) -> None:
    """Delete the members of these settled jobs (firm id, job id); fire the fan-ins that are complete.

    Must join the transaction that settles them.
    """
    settled = list(jobs)
    # Nearly always there are no fan-ins, and this query is all it costs.
    if not settled or not fetch(ANY_MEMBER, [], prepared=True):
        return
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"firm_id": Column.BIGINT, "job_id": Column.UUID}, settled)
    left = fetch(
        f"""
        DELETE FROM jobs_faninmember
        WHERE id IN (
            SELECT m.id FROM {rows}
            JOIN jobs_faninmember m ON m.firm_id = r.firm_id AND m.job_id = r.job_id
        )
        RETURNING fan_in_id
        """,
        params,
    )
    unfired = _fire({dialect.read_uuid(row[0]) for row in left})
    if unfired:
        transaction.on_commit(lambda: _fire_later(unfired), robust=True)


def _fire_later(fan_in_ids: Collection[UUID]) -> bool:
    """Fire those of these that are complete now. False: one is still locked; leave it to the sweep."""
    try:
        in_transaction(
            lambda: _fire(fan_in_ids, waits=True), lock_timeout_ms=SHORT_LOCK_TIMEOUT_MILLISECONDS
        )
    except LockTimeout:
        return False
    return True


def sweep_fan_ins(after: UUID | None) -> UUID | None:
    """Remove members whose job is settled or deleted, in one chunk; return its last id, None at the end.

    They are few: jobs that were settled while their fan-in was being stored. At the end, fires fan-ins
    that are complete and were locked when they became so.
    """
    dialect = dialects.current()
    members = reading(
        lambda: fetch(
            f"""
            SELECT m.id, EXISTS (
                SELECT 1 FROM jobs_jobqueue j
                WHERE j.job_id = m.job_id AND j.status IN ({_live()})
            )
            FROM jobs_faninmember m WHERE m.id > %s ORDER BY m.id LIMIT {SWEEP_CHUNK}
            """,
            [dialect.value(Column.UUID, after or FIRST_ID)],
        )
    )
    over = [dialect.read_uuid(member) for member, live in members if not live]
    if over:
        in_transaction(lambda: _remove(over))
    last: UUID | None = dialect.read_uuid(members[-1][0]) if members else None
    if len(members) == SWEEP_CHUNK:
        return last
    _fire_complete()
    return None


def _fire_complete() -> None:
    """Fire fan-ins that are complete, in any order, until too many of them turn out to be locked."""
    dialect = dialects.current()
    complete = reading(lambda: fetch(COMPLETE_SQL, []))
    timeouts = 0
    for (fan_in_id,) in random.sample(complete, len(complete)):
        timeouts += not _fire_later([dialect.read_uuid(fan_in_id)])
        if timeouts == MOST_LOCK_TIMEOUTS:
            break


def _remove(members: Sequence[UUID]) -> None:
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"id": Column.UUID}, [(member,) for member in members])
    left = fetch(
        f"DELETE FROM jobs_faninmember WHERE id IN (SELECT r.id FROM {rows}) RETURNING fan_in_id",
        params,
    )
    _fire({dialect.read_uuid(row[0]) for row in left})


def _fire(fan_in_ids: Collection[UUID], *, waits: bool = False) -> set[UUID]:
    """Enqueue the jobs of those that have no member left and have not fired; return the others.

    Those that another transaction has locked are left out, unless this one `waits` for them.
    """
    if not fan_in_ids:
        return set()
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r", {"id": Column.UUID}, [(fan_in_id,) for fan_in_id in fan_in_ids]
    )
    unfired = f"f.fired_at IS NULL AND f.id IN (SELECT r.id FROM {rows})"
    lock = dialect.for_update if waits else dialect.skip_locked
    found = fetch(f"SELECT f.id FROM jobs_fanin f WHERE {unfired} ORDER BY f.id {lock}", params)
    if not found:
        return set(fan_in_ids)
    rows, params = dialect.rows_sql(
        "r", {"id": Column.UUID}, [(dialect.read_uuid(fan_in_id),) for (fan_in_id,) in found]
    )
    # A new statement: it sees what the previous holders of the locks committed.
    columns = ", ".join(
        dialect.json_text_sql("f.payload") if column == "payload" else f"f.{column}"
        for column in JOB_COLUMNS
    )
    complete = fetch(
        f"""
        SELECT f.id, {columns} FROM jobs_fanin f
        WHERE {unfired}
          AND NOT EXISTS (SELECT 1 FROM jobs_faninmember m WHERE m.fan_in_id = f.id)
        ORDER BY f.id
        """,
        params,
    )
    fired = {}
    for fan_in_id, *kept in complete:
        job = _job_to_enqueue(kept)
        fired[dialect.read_uuid(fan_in_id)] = job
        (job_id,) = insert([job])
        run(
            f"UPDATE jobs_fanin SET fired_at = {dialect.now_sql()}, then_job_id = %s WHERE id = %s",
            [dialect.value(Column.UUID, job_id), fan_in_id],
        )
    if fired:
        groups = dispatch_groups(fired.values())
        transaction.on_commit(lambda: dispatch(groups), robust=True)
    return set(fan_in_ids) - fired.keys()


def _job_to_enqueue(kept: Sequence[object]) -> NewJob:
    values = dict(zip(JOB_COLUMNS, kept, strict=True))
    values["parent_id"] = dialects.current().read_uuid(values["parent_id"])
    values["once_only"] = bool(values["once_only"])
    return NewJob(job_id=uuid7(), **values)  # type: ignore[arg-type]  # rows are untyped


def _live() -> str:
    return ", ".join(f"'{status.value}'" for status in sorted(LIVE))
