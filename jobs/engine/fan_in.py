"""Enqueues a job once others are settled, in whatever status; in a chain, once one is completed.

A fan-in stores the job to enqueue, validated, and one member for each job it waits for. Settling a
job deletes its members in the same transaction, then locks the fan-ins concerned, and only then, in
a statement of its own, looks for members that are left. If there is none, the fan-in fires, once.

A fan-in may be locked for as long as a caller's transaction, so no transaction waits for the lock.
One that finds it taken, or finds members left, checks again after its commit: if the last two
members are settled at once, the second to commit sees that both are gone. The sweep checks too.

The member of a chain stays while its job is settled but not completed, because an operator may
restart the job. It is deleted with the job.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import SHORT_LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.fan_in_rows import delete_fan_in, fan_in_columns_sql, read_fan_in, store_fan_in
from jobs.engine.insert import dispatch_after_commit, dispatch_groups, insert, insert_at_once
from jobs.engine.new_job import NewJob
from jobs.engine.replace import insert_or_replace
from jobs.engine.steps import save_step
from jobs.engine.transactions import LockTimeout, fetch, in_transaction, reading, run
from jobs.errors import LeaseLost
from jobs.models.base import FIRST_ID
from jobs.states import LIVE

T = TypeVar("T")

SWEEP_CHUNK = 500
MOST_LOCK_TIMEOUTS = 5
# The name of the fan-in that follows the first job of a chain.
OWN_CHAIN = "chain"
COMPLETE_SQL = f"""
SELECT f.id FROM jobs_fanin f
WHERE f.fired_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs_faninmember m WHERE m.fan_in_id = f.id)
ORDER BY f.id LIMIT {SWEEP_CHUNK}
"""
_LIVE = dialects.statuses_sql(LIVE)


def fan_out(claim: Claim, name: str, children: Sequence[NewJob], then: NewJob) -> list[UUID]:
    """Store the children, and `then`, to be enqueued once they are settled (at once if none).

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
    # A list of this queue's own: it is as long as the caller's list of children.
    if not save_step(claim, name, results, bounded=False):
        raise LeaseLost(f"job {claim.job_id} now belongs to another worker")
    fan_in_id = store_fan_in(then, name)
    _add_members(fan_in_id, then.firm_id, set(stored))
    _fire_soon([fan_in_id])
    return stored


def store_chain(jobs: Sequence[NewJob]) -> tuple[list[UUID], frozenset[UUID]]:
    """Store the first job; each other job is enqueued when the one before it is completed.

    Returns what `insert_or_replace` does for the first job. The others are stored only if that is;
    if it replaces a job, they replace the rest of that job's chain.
    """
    return in_transaction(lambda: _store_chain(jobs))


def _store_chain(jobs: Sequence[NewJob]) -> tuple[list[UUID], frozenset[UUID]]:
    first, *rest = jobs
    stored, replacing = insert_or_replace([first])
    if replacing:
        delete_fan_in(stored[0], first.firm_id, OWN_CHAIN)
    if rest and (replacing or stored[0] == first.job_id):
        _follow(stored[0], rest, OWN_CHAIN)
    return stored, replacing


def _follow(job_id: UUID, rest: Sequence[NewJob], name: str = "") -> UUID:
    """Store a fan-in that enqueues the first of `rest` when this job is completed."""
    then = rest[0]._replace(parent_id=job_id)
    # The default name is unique, because one job may have the keys of jobs in several chains.
    name = name or f"chain {then.job_id}"
    fan_in_id = store_fan_in(then, name, only_completed=True, rest=rest[1:])
    _add_members(fan_in_id, then.firm_id, [job_id], only_completed=True)
    return fan_in_id


def _add_members(
    fan_in_id: UUID, firm_id: int, job_ids: Collection[UUID], *, only_completed: bool = False
) -> None:
    """Add the jobs that are live or, with `only_completed`, not completed.

    An existing job may be settled by others before this commits; the sweep removes its member.
    """
    dialect = dialects.current()
    condition = "j.status <> 'completed'" if only_completed else f"j.status IN ({_LIVE})"
    rows, params = dialect.rows_sql(
        "r",
        {"member": Column.UUID, "job_id": Column.UUID},
        [(uuid7(), job_id) for job_id in sorted(job_ids)],
    )
    run(
        f"""
        INSERT INTO jobs_faninmember (id, firm_id, fan_in_id, job_id)
        SELECT r.member, %s, %s, j.job_id FROM {rows}
        JOIN jobs_jobqueue j ON j.job_id = r.job_id WHERE {condition}
        """,
        [firm_id, dialect.value(Column.UUID, fan_in_id), *params],
    )


ANY_MEMBER = "SELECT 1 FROM jobs_faninmember LIMIT 1"


def leave_fan_ins(settled: Sequence[tuple[int, UUID, bool]]) -> None:
    """Delete the members of these settled jobs; fire the fan-ins that are complete.

    Each is given by its firm's id, its own id, and whether it is completed. Must join the
    transaction that settles them.
    """
    dialect = dialects.current()
    columns = {"firm_id": Column.BIGINT, "job_id": Column.UUID, "completed": Column.BOOLEAN}
    rows, params = dialect.rows_sql("r", columns, settled)
    left = fetch(
        f"""
        DELETE FROM jobs_faninmember
        WHERE id IN (
            SELECT m.id FROM {rows}
            JOIN jobs_faninmember m ON m.firm_id = r.firm_id AND m.job_id = r.job_id
            JOIN jobs_fanin f ON f.id = m.fan_in_id
            WHERE r.completed OR NOT f.only_completed
        )
        RETURNING fan_in_id
        """,
        params,
    )
    _fire_soon({dialect.read_uuid(row[0]) for row in left})


def fire_each(several: Sequence[T], fire: Callable[[T], object]) -> None:
    """Call `fire` for each in a transaction of its own, until too many are locked by others.

    The sweep does the rest. The order is random, because those that stay locked must not always
    come first.
    """
    timeouts = 0
    for one in random.sample(several, len(several)):
        try:
            in_transaction(
                lambda: fire(one),  # noqa: B023 - called at once
                lock_timeout_ms=SHORT_LOCK_TIMEOUT_MILLISECONDS,
            )
        except LockTimeout:
            timeouts += 1
        if timeouts == MOST_LOCK_TIMEOUTS:
            break


def sweep_fan_ins(after: UUID | None) -> UUID | None:
    """Remove a chunk's members with a settled or deleted job; return the last id, None at the end.

    There are few: their jobs were settled while the fan-in was being stored. At the end, fires
    complete fan-ins that were locked when they became complete.
    """
    dialect = dialects.current()
    members = reading(
        lambda: fetch(
            f"""
            SELECT m.id, EXISTS (
                SELECT 1 FROM jobs_jobqueue j WHERE j.job_id = m.job_id AND (
                    j.status IN ({_LIVE}) OR (f.only_completed AND j.status <> 'completed'))
            )
            FROM jobs_faninmember m JOIN jobs_fanin f ON f.id = m.fan_in_id WHERE m.id > %s ORDER BY m.id LIMIT {SWEEP_CHUNK}
            """,
            [dialect.value(Column.UUID, after or FIRST_ID)],
        )
    )
    over = [dialect.read_uuid(member) for member, waits in members if not waits]
    if over:
        in_transaction(lambda: _remove(over))
    last: UUID | None = dialect.read_uuid(members[-1][0]) if members else None
    if len(members) == SWEEP_CHUNK:
        return last
    complete = [[dialect.read_uuid(one)] for (one,) in reading(lambda: fetch(COMPLETE_SQL, []))]
    fire_each(complete, _fire_waiting)
    return None


def _remove(members: Sequence[UUID]) -> None:
    dialect = dialects.current()
    rows, params = dialects.ids_sql(members)
    left = fetch(
        f"DELETE FROM jobs_faninmember WHERE id IN (SELECT r.id FROM {rows}) RETURNING fan_in_id",
        params,
    )
    _fire_soon({dialect.read_uuid(row[0]) for row in left})


def _fire_soon(fan_in_ids: Collection[UUID]) -> None:
    """Fire the fan-ins that are complete, or look again after the commit."""
    unfired = _fire(fan_in_ids)
    if unfired:
        transaction.on_commit(lambda: fire_each([unfired], _fire_waiting), robust=True)


def _fire_waiting(fan_in_ids: Collection[UUID]) -> None:
    _fire(fan_in_ids, waits=True)


def _fire(fan_in_ids: Collection[UUID], *, waits: bool = False) -> set[UUID]:
    """Fire the fan-ins that have no member left and have not fired; return the others.

    Unless this transaction `waits`, those that another has locked are left out, and those whose job
    has an idempotency key with which another is enqueueing a job.
    """
    if not fan_in_ids:
        return set()
    dialect = dialects.current()
    rows, params = dialects.ids_sql(fan_in_ids)
    unfired = f"f.fired_at IS NULL AND f.id IN (SELECT r.id FROM {rows})"
    lock = dialect.for_update if waits else dialect.skip_locked
    found = fetch(f"SELECT f.id FROM jobs_fanin f WHERE {unfired} ORDER BY f.id {lock}", params)
    if not found:
        return set(fan_in_ids)
    rows, params = dialects.ids_sql(dialect.read_uuid(fan_in_id) for (fan_in_id,) in found)
    # A new statement: it sees what the previous holders of the locks committed.
    complete = fetch(
        f"""
        SELECT {fan_in_columns_sql()} FROM jobs_fanin f
        WHERE {unfired}
          AND NOT EXISTS (SELECT 1 FROM jobs_faninmember m WHERE m.fan_in_id = f.id)
        ORDER BY f.id
        """,
        params,
    )
    fired = {}
    opened = set()
    for fan_in_id, job, rest in map(read_fan_in, complete):
        job_id = insert([job])[0] if waits else insert_at_once(job)
        if job_id is None:
            continue
        fired[fan_in_id] = job
        run(
            f"UPDATE jobs_fanin SET fired_at = {dialect.now_sql()}, then_job_id = %s WHERE id = %s",
            [dialect.value(Column.UUID, job_id), dialect.value(Column.UUID, fan_in_id)],
        )
        if rest:
            opened.add(_follow(job_id, rest))
    if fired:
        dispatch_after_commit(dispatch_groups(fired.values()))
    # An existing job that has the key of one in the chain may be completed already.
    _fire_soon(opened)
    return set(fan_in_ids) - fired.keys()


def delete_fan_ins(jobs: Sequence[tuple[UUID, int]]) -> None:
    """Delete the fan-ins that these deleted jobs (id, firm id) requested, or had to complete for.

    Must join the transaction that deletes them.
    """
    rows, params = dialects.current().rows_sql(
        "r", {"id": Column.UUID, "firm_id": Column.BIGINT}, jobs
    )
    theirs = f"""
        SELECT f.id FROM {rows} JOIN jobs_fanin f ON f.firm_id = r.firm_id AND f.parent_id = r.id
        UNION
        SELECT f.id FROM {rows}
        JOIN jobs_faninmember m ON m.firm_id = r.firm_id AND m.job_id = r.id
        JOIN jobs_fanin f ON f.id = m.fan_in_id AND f.only_completed
        """
    found = [row[0] for row in fetch(theirs, params * 2)]
    run(
        "DELETE FROM jobs_faninmember"
        f" WHERE (firm_id, job_id) IN (SELECT r.firm_id, r.id FROM {rows})",
        params,
    )
    ids, params = dialects.ids_sql(map(dialects.current().read_uuid, found))
    run(f"DELETE FROM jobs_faninmember WHERE fan_in_id IN (SELECT r.id FROM {ids})", params)
    run(f"DELETE FROM jobs_fanin WHERE id IN (SELECT r.id FROM {ids})", params)
