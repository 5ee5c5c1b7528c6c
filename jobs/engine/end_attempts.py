"""Ends attempts (for settle, rescue and release) and pending jobs: the row and its consequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs.engine import dialects
from jobs.engine.batches import ANY_UNCOMPLETED, leave_batches
from jobs.engine.breakers import count_attempts
from jobs.engine.counters import Counted, count
from jobs.engine.dialects import Column
from jobs.engine.fan_in import ANY_MEMBER, leave_fan_ins
from jobs.engine.history import open_dead_letters, record_attempts
from jobs.engine.locks import free_job_locks
from jobs.engine.requeue import queue_columns_sql
from jobs.engine.transactions import fetch
from jobs.engine.transition import Transition
from jobs.engine.wakeup import notify_settled
from jobs.states import CANCELED_MESSAGE, TERMINAL, Status

COLUMNS = {
    "id": Column.UUID,
    "token": Column.BIGINT,
    "next": Column.TEXT,
    "cancelable": Column.BOOLEAN,
    "error": Column.TEXT,
    "result": Column.TEXT,
    "due": Column.TIME,
    "delay": Column.FLOAT,
    "refund": Column.INTEGER,
    "died": Column.INTEGER,
    "started": Column.BOOLEAN,
    "begun_ago": Column.FLOAT,
}
_ANY_MEMBERS = f"SELECT EXISTS ({ANY_MEMBER}), EXISTS ({ANY_UNCOMPLETED})"


def end_attempts(transitions: Iterable[Transition], *, by_worker: bool) -> list[Transition]:
    """Write the transitions in the open transaction; return those that were written, as written.

    A job is changed only while its row carries the lease token of the attempt. With `by_worker`,
    the worker ends its own attempts: the row keeps the token, negated, so that a repeat after a
    lost response recognizes its own write. Otherwise the row belongs to no worker afterwards. Jobs
    that another transaction has locked are left out.
    """
    # Of two claims of one job only the newer can be in force.
    by_token = sorted(transitions, key=lambda one: one.job.lease_token)
    newest = {one.job.job_id: one for one in by_token}
    ordered = _without_locked(sorted(newest.values(), key=lambda one: one.job.job_id.bytes))
    if not ordered:
        return []
    statuses = _update_jobs(ordered, by_worker=by_worker)
    ended = [
        one.canceled() if statuses[one.job.job_id] is Status.CANCELED else one
        for one in ordered
        if one.job.job_id in statuses
    ]
    over = [one for one in ended if one.status in TERMINAL]
    _leave_fan_ins_and_batches([(one.job.firm_id, one.job.job_id, one.status) for one in over])
    record_attempts(ended)
    open_dead_letters(ended)
    count(_counted(ended))
    count_attempts((one.job, one.outcome) for one in ended if one.outcome is not None)
    free_job_locks([one.job.job_id for one in ended if one.job.lock_key is not None])
    transaction.on_commit(lambda: notify_settled([one.job.job_id for one in over]), robust=True)
    return ended


def end_pending(
    status: Status, error: str, where: str, params: list[Any], *, select: str = "", also: str = ""
) -> int:
    """End the pending jobs that meet `where` with this status, in the open transaction.

    `params` are those of `where`; `select` is a WITH clause for it, and `also` sets further columns.
    Returns how many jobs ended.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    ended = fetch(
        f"""
        {select}
        UPDATE jobs_jobqueue
        SET status = '{status.value}', last_error = %s, completed_at = {now},
            updated_at = {now}, ready = false, waiting = false, live_key = NULL {also}
        WHERE {where} AND status = 'pending'
        RETURNING job_id, firm_id, category, lock_key
        """,
        [error, *params],
    )
    jobs = [(firm_id, dialect.read_uuid(job_id), status) for job_id, firm_id, *_ in ended]
    _leave_fan_ins_and_batches(jobs)
    count(Counted(firm_id, category, status.value) for _, firm_id, category, _ in ended)
    free_job_locks([dialect.read_uuid(row[0]) for row in ended if row[3] is not None])
    transaction.on_commit(lambda: notify_settled([job_id for _, job_id, _ in jobs]), robust=True)
    return len(ended)


def _leave_fan_ins_and_batches(jobs: Sequence[tuple[int, UUID, Status]]) -> None:
    """Tell fan-ins and batches that these jobs (firm id, job id, status) are settled."""
    if not jobs:
        return
    # Nearly always there are no members at all, and this query is the only cost.
    ((fan_ins, batches),) = fetch(_ANY_MEMBERS, [], prepared=True)
    if fan_ins:
        leave_fan_ins(
            [(firm_id, job_id, status is Status.COMPLETED) for firm_id, job_id, status in jobs]
        )
    if batches:
        leave_batches(jobs)


def _without_locked(transitions: Sequence[Transition]) -> Sequence[Transition]:
    """Lock the rows that are still these attempts' and that no other transaction has locked.

    A caller may keep its transaction open: waiting for its locks would delay all the others.
    """
    dialect = dialects.current()
    if not dialect.skip_locked or not transitions:
        return transitions
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, "token": Column.BIGINT},
        [(one.job.job_id, one.job.lease_token) for one in transitions],
    )
    locked = fetch(
        f"""
        SELECT q.lease_token FROM jobs_jobqueue q
        WHERE (q.job_id, q.lease_token) IN (SELECT r.id, r.token FROM {rows})
        {dialect.skip_locked}
        """,
        params,
        prepared=True,
    )
    tokens = {token for (token,) in locked}
    return [one for one in transitions if one.job.lease_token in tokens]


def _update_jobs(transitions: Sequence[Transition], *, by_worker: bool) -> dict[UUID, Status]:
    """Write the rows; return the new status of each whose token matched."""
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql("r", COLUMNS, [_row(one) for one in transitions])
    status = (
        "CASE WHEN r.cancelable AND j.cancel_requested_at IS NOT NULL"
        " THEN 'canceled' ELSE r.next END"
    )
    pending = f"({status}) = 'pending'"
    due = (
        f"CASE WHEN r.due > {now} THEN r.due WHEN r.delay IS NOT NULL"
        f" THEN {dialect.after_sql(now, 'r.delay')} ELSE j.scheduled_at END"
    )
    # A condition beside id and token could lead the planner to another index.
    updated = fetch(
        f"""
        UPDATE jobs_jobqueue AS j
        SET status = {status},
            result = COALESCE(r.result{dialect.json_cast}, j.result),
            last_error = COALESCE(
                r.error, CASE WHEN ({status}) = 'canceled' THEN '{CANCELED_MESSAGE}' END, j.last_error
            ),
            attempts = j.attempts - r.refund, deaths = j.deaths + r.died,
            scheduled_at = CASE WHEN {pending} THEN {due} ELSE j.scheduled_at END,
            claimed_at = CASE WHEN {pending} AND NOT r.started THEN NULL ELSE j.claimed_at END,
            started_at = CASE
                WHEN r.begun_ago IS NOT NULL THEN {dialect.after_sql(now, "-r.begun_ago")}
                WHEN {pending} AND NOT r.started THEN NULL
                ELSE j.started_at END,
            completed_at = CASE WHEN {pending} THEN NULL ELSE {now} END,
            {queue_columns_sql(pending, "(NOT r.started AND r.delay IS NULL)")},
            live_key = CASE WHEN {pending} THEN j.live_key END,
            worker_id = {f"CASE WHEN {pending} THEN NULL ELSE j.worker_id END" if by_worker else "NULL"},
            lease_token = {"-j.lease_token" if by_worker else "0"},
            updated_at = {now}
        FROM {rows}
        WHERE j.job_id = r.id AND j.lease_token = r.token
        RETURNING job_id, status
        """,
        params,
        prepared=True,
    )
    return {dialect.read_uuid(job_id): Status(status) for job_id, status in updated}


def _row(one: Transition) -> tuple[object, ...]:
    return (
        one.job.job_id,
        one.job.lease_token,
        one.status.value,
        one.cancelable,
        one.error,
        one.result,
        one.due,
        one.delay,
        one.refund,
        int(one.died),
        one.started,
        one.begun_ago,
    )


def _counted(ended: Sequence[Transition]) -> Iterator[Counted]:
    """Yield what is counted: all but snoozes, releases and the jobs that rescue requeues."""
    for one in ended:
        if one.status is Status.PENDING and not one.retried:
            continue
        counter = "retried" if one.status is Status.PENDING else one.status.value
        job = one.job
        yield Counted(
            job.firm_id, job.category, counter, job.waited_seconds, one.ran_seconds or 0.0
        )
