"""Ends pending jobs that have expired, and deletes old finished rows in small chunks.

What an operator has yet to review is never deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.conf import retention_days
from jobs.engine import dialects
from jobs.engine.batches import UNCOMPLETED_SQL
from jobs.engine.clock import database_now
from jobs.engine.delete_owned import delete_history, lock_free_jobs
from jobs.engine.dialects import Column
from jobs.engine.end_attempts import end_pending
from jobs.engine.schedule_runs import IN_OPEN_RUN
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.models.base import FIRST_ID, id_at
from jobs.registry import all_types
from jobs.states import Status
from tenants.models import Firm

CHUNK = 500
REVIEWED_RETENTION_DAYS = 90
RUN_RETENTION_DAYS = 90
DAY_SECONDS = 86_400
# No row is older, and a longer time could not be subtracted from a date.
LONGEST_RETENTION = timedelta(days=36_500)


@dataclass
class Pruned:
    """How many rows were deleted."""

    jobs: int = 0
    dead_letters: int = 0
    minutes: int = 0
    locks: int = 0
    bulk_runs: int = 0
    deliveries: int = 0
    schedule_runs: int = 0
    batches: int = 0


def prune(firm: Firm) -> Pruned:
    """Delete the firm's old finished jobs with their history, and other old rows.

    Those are dead letters reviewed long ago, old counters, deliveries, bulk runs, batches
    and runs of schedules, users' locks that have expired, idempotency keys whose period is over, and the keys
    of old requests.
    """
    days = firm.retention_days if firm.retention_days is not None else retention_days()
    days = min(days, LONGEST_RETENTION.days)
    kept = _Kept(timedelta(days=days))
    pruned = Pruned()
    pruned.dead_letters = _prune_dead_letters(firm.pk)
    last: UUID | None = FIRST_ID
    while last is not None:
        start = last
        last, deleted = in_transaction(lambda: _prune_chunk(firm.pk, start, kept))  # noqa: B023 - called at once
        pruned.jobs += deleted
    pruned.minutes = _prune_minutes(firm.pk, days)
    pruned.locks = _prune_locks(firm.pk)
    pruned.bulk_runs = _prune_bulk_runs(firm.pk, days)
    pruned.batches = _prune_batches(firm.pk, days)
    _prune_requests(firm.pk)
    _prune_idempotency_keys(firm.pk)
    pruned.deliveries = _prune_by_id("jobs_delivery", firm.pk, days)
    _prune_failure_alerts(firm.pk)
    pruned.schedule_runs = _prune_by_id("jobs_schedulerun", firm.pk, max(days, RUN_RETENTION_DAYS))
    return pruned


class _Kept:
    """How long settled jobs are kept: a type's own time, else the firm's."""

    def __init__(self, default: timedelta) -> None:
        self._default = default
        self._by_type = {
            one.name: min(one.retention, LONGEST_RETENTION)
            for one in all_types()
            if one.retention is not None
        }
        self.shortest = min([default, *self._by_type.values()])

    def __call__(self, job_type: str) -> timedelta:
        return self._by_type.get(job_type, self._default)


def _prune_chunk(firm_id: int, after: UUID, kept: _Kept) -> tuple[UUID | None, int]:
    """Delete the old jobs of the next chunk, oldest first; return its last id, None at the end."""
    dialect = dialects.current()
    now = database_now()
    rows = fetch(
        """
        SELECT job_id, status, job_type, completed_at FROM jobs_jobqueue
        WHERE firm_id = %s AND job_id > %s AND job_id < %s ORDER BY job_id LIMIT %s
        """,
        [
            firm_id,
            dialect.value(Column.UUID, after),
            dialect.value(Column.UUID, id_at(now - kept.shortest)),
            CHUNK,
        ],
    )
    old = []
    for job_id, status, job_type, completed_at in rows:
        done_at = dialect.read_time(completed_at)
        is_over = status in ("completed", "failed", "canceled")
        if is_over and done_at and done_at < now - kept(job_type):
            old.append(dialect.read_uuid(job_id))
    deleted = _delete(firm_id, old)
    last = dialect.read_uuid(rows[-1][0]) if len(rows) == CHUNK else None
    return last, deleted


def _delete(firm_id: int, job_ids: list[UUID]) -> int:
    """Delete these jobs, except those with a dead letter, an open fan-in or an unfinished run.

    A chain is an open fan-in only while its job is completed: then its next job is about to follow.
    Nor those that a batch takes to be live: it has yet to learn how they ended.
    Jobs that another transaction has locked are left to the next purge.
    """
    free = lock_free_jobs(job_ids)
    if not free:
        return 0
    dialect = dialects.current()
    rows, params = dialects.ids_sql(free)
    gone = fetch(
        f"""
        DELETE FROM jobs_jobqueue
        WHERE job_id IN (SELECT r.id FROM {rows}) AND status IN ('completed', 'failed', 'canceled')
          AND NOT EXISTS (
            SELECT 1 FROM jobs_deadletterqueue d
            WHERE d.firm_id = jobs_jobqueue.firm_id AND d.original_job_id = jobs_jobqueue.job_id)
          AND NOT EXISTS (
            SELECT 1 FROM jobs_fanin f WHERE f.firm_id = jobs_jobqueue.firm_id
              AND f.parent_id = jobs_jobqueue.job_id AND f.fired_at IS NULL
              AND (NOT f.only_completed OR jobs_jobqueue.status = 'completed'))
          AND NOT EXISTS (
            SELECT 1 FROM jobs_batchmember m
            WHERE m.firm_id = jobs_jobqueue.firm_id AND m.job_id = jobs_jobqueue.job_id
              AND m.state = 'pending')
          AND NOT {IN_OPEN_RUN}
        RETURNING job_id
        """,
        params,
    )
    delete_history([(dialect.read_uuid(job_id), firm_id) for (job_id,) in gone])
    return len(gone)


def _prune_dead_letters(firm_id: int) -> int:
    """Delete reviewed dead letters after 90 days; unreviewed ones never."""
    return _delete_where(
        "jobs_deadletterqueue",
        f"resolution IN ('reprocessed', 'discarded') AND reviewed_at < {_ago_sql()}",
        [firm_id, -REVIEWED_RETENTION_DAYS * DAY_SECONDS],
    )


def _prune_minutes(firm_id: int, days: int) -> int:
    """Delete old counters, whether they are folded or not."""
    params = [firm_id, -days * DAY_SECONDS]
    return sum(
        _delete_where(f"jobs_{table}", old, params)
        for table, old in (
            ("jobminute", f"minute < {_ago_sql()}"),
            ("jobhour", f"minute < {_ago_sql()}"),
            ("jobminutedelta", f"minute < {_ago_sql()}"),
            ("latencybucket", f"span_start < {_ago_sql()}"),
            ("failingtype", f"last_failed_at < {_ago_sql()}"),
        )
    )


def _prune_locks(firm_id: int) -> int:
    """Delete users' locks that have expired; jobs' locks never do."""
    now = dialects.current().now_sql()
    return _delete_where("jobs_concurrencylock", f"expires_at < {now}", [firm_id])


def _prune_bulk_runs(firm_id: int, days: int) -> int:
    """Delete bulk runs that ended long ago, with their members, which may be of other firms."""
    old = f"finished_at < {_ago_sql()}"
    return _prune_with_members("bulkrun", "bulkmember.run_id", old, firm_id, days)


def _prune_batches(firm_id: int, days: int) -> int:
    """Delete batches settled long ago, except those with a job that may still be restarted."""
    old = f"""settled_at < {_ago_sql()} AND NOT EXISTS (
        SELECT 1 FROM jobs_batchmember m JOIN jobs_jobqueue j ON j.job_id = m.job_id
        WHERE m.batch_id = jobs_batch.id AND m.{UNCOMPLETED_SQL})"""
    return _prune_with_members("batch", "batchmember.batch_id", old, firm_id, days)


def _prune_with_members(table: str, reference: str, old: str, firm_id: int, days: int) -> int:
    """Delete the firm's old rows, after their members, whose column `reference` names them."""
    params = [firm_id, -days * DAY_SECONDS]
    members, column = reference.split(".")
    chunk = f"""
        DELETE FROM jobs_{members} WHERE id IN (
            SELECT id FROM jobs_{members} WHERE {column} IN (
                SELECT id FROM jobs_{table} WHERE firm_id = %s AND {old}
            ) LIMIT {CHUNK}
        )
        """
    while in_transaction(lambda: run(chunk, params)) == CHUNK:
        pass
    return _delete_where(f"jobs_{table}", old, params)


def _prune_requests(firm_id: int) -> int:
    """Delete the keys of requests after a day, with their answers."""
    return _delete_where(
        "jobs_idempotentrequest", f"created_at < {_ago_sql()}", [firm_id, -DAY_SECONDS]
    )


def _prune_idempotency_keys(firm_id: int) -> int:
    """Delete the keys whose period has ended; a new job would take them over anyway."""
    now = dialects.current().now_sql()
    return _delete_where("jobs_idempotencykey", f"expires_at <= {now}", [firm_id])


def _prune_by_id(table: str, firm_id: int, days: int) -> int:
    """Delete old rows of history, by the times in their ids."""
    first = id_at(database_now() - timedelta(days=days))
    wanted = dialects.current().value(Column.UUID, first)
    return _delete_where(table, "id < %s", [firm_id, wanted])


def _prune_failure_alerts(firm_id: int) -> int:
    """Delete the notes on alerts to failures that have not occurred for long."""
    latest = ("new_alerted_at", "unreviewed_alerted_at")
    old = " AND ".join(f"({column} IS NULL OR {column} < {_ago_sql()})" for column in latest)
    seconds = -REVIEWED_RETENTION_DAYS * DAY_SECONDS
    return _delete_where("jobs_failurealert", old, [firm_id, seconds, seconds])


def _ago_sql() -> str:
    dialect = dialects.current()
    return dialect.after_sql(dialect.now_sql(), "%s")


def _delete_where(table: str, condition: str, params: list[Any]) -> int:
    """Delete a firm's rows, a chunk in each transaction, but for those that others have locked."""
    wanted = f"firm_id = %s AND {condition}"
    dialect = dialects.current()
    # As a subquery of the DELETE, PostgreSQL may read the chunk, and so lock another, for each row.
    sql = f"""
        WITH chunk AS {dialect.materialized} (
            SELECT id FROM {table} WHERE {wanted} LIMIT {CHUNK} {dialect.skip_locked}
        )
        DELETE FROM {table} WHERE id IN (SELECT id FROM chunk) RETURNING 1
        """
    total = 0
    while True:
        deleted = len(in_transaction(lambda: fetch(sql, params)))
        total += deleted
        if deleted < CHUNK:
            return total


BATCH = 500
EXPIRED_MESSAGE = "expired"


def expire() -> int:
    """Fail a batch of pending jobs past their `expires_at`; return how many."""
    dialect = dialects.current()
    due = f"""
        WITH due AS {dialect.materialized} (
            SELECT job_id FROM jobs_jobqueue
            WHERE expires_at <= {dialect.now_sql()} AND completed_at IS NULL AND status = 'pending'
            ORDER BY expires_at LIMIT {BATCH} {dialect.skip_locked}
        )
    """
    which = "job_id IN (SELECT due.job_id FROM due)"
    return in_transaction(
        lambda: end_pending(Status.FAILED, EXPIRED_MESSAGE, which, [], select=due)
    )
