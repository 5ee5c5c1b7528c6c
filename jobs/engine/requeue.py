"""Puts jobs back in the queue: the columns that every requeue writes, and restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import ANY_RATE, held_back_sql, may_run_sql, rated_sql
from jobs.engine.locks import free_job_locks
from jobs.engine.transactions import fetch, run
from jobs.errors import KeyHeld, WrongState
from jobs.states import QUARANTINE_DEATHS, RETRYABLE

# After a restart a quarantined job still runs alone, and its next death is its last.
DEATHS_KEPT_SQL = f"CASE WHEN deaths > {QUARANTINE_DEATHS} THEN {QUARANTINE_DEATHS} ELSE deaths END"


def queue_columns_sql(pending: str = "true", unstarted: str = "false") -> str:
    """Return the assignments that put row `j` back in the queue after an attempt, or take it out.

    `pending` is the condition (SQL) under which the job is queued again: waiting for admission if
    it has a lock key or a limit holds it back, otherwise ready to be claimed. If it was given back
    `unstarted`, it has not used the tokens it was admitted with, and stays admitted, unless it has a
    lock key: it gives up its slot, and others of the key may come first.
    """
    rated = f"({ANY_RATE} AND {rated_sql('j')})"
    keeps = (
        f"({unstarted} AND j.admitted AND j.lock_key IS NULL AND {rated} AND {may_run_sql('j')})"
    )
    waits = f"((j.lock_key IS NOT NULL OR {held_back_sql('j')}) AND NOT {keeps})"
    return (
        f"ready = ({pending} AND NOT {waits}), waiting = ({pending} AND {waits}),"
        f" admitted = ({pending} AND {keeps})"
    )


def requeue_pending(job_id: UUID) -> None:
    """Queue a pending job again after its row changed; it gives up its slot and admission.

    Must join the transaction that changed the row. The caller admits its lock keys, the old one
    and the new one, after the commit.
    """
    dialect = dialects.current()
    free_job_locks([job_id])
    run(
        f"UPDATE jobs_jobqueue AS j SET {queue_columns_sql()}"
        " WHERE job_id = %s AND status = 'pending'",
        [dialect.value(Column.UUID, job_id)],
    )


@dataclass(frozen=True)
class Restart:
    """What a restart changes; None keeps the value. `payload` is checked JSON text.

    `derived` has the columns that follow from the payload, if they change; for a single job only.
    """

    payload: str | None = None
    payload_version: str | None = None
    priority: int | None = None
    derived: Mapping[str, str | int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Restarted:
    """The job after its restart."""

    job_id: UUID
    firm_id: int
    category: str
    series: int
    lock_key: str | None


def restart(job_id: UUID, change: Restart) -> Restarted:
    """Put a dead-lettered, failed or canceled job back to pending, as a new series of attempts.

    Must join the transaction of the operation; of two concurrent callers one succeeds. The caller
    admits the lock key after the commit.

    Raises:
        WrongState: the job has another status.
        KeyHeld: a live job holds the same idempotency key.
    """
    if change.derived:
        _derive(job_id, change.derived)
    try:
        restarted = restart_many([job_id], change)
    except IntegrityError as error:
        raise KeyHeld(_key_holder(job_id)) from error
    if not restarted:
        raise WrongState(f"job {job_id} is not dead-lettered, failed or canceled")
    return restarted[0]


def restart_many(job_ids: Sequence[UUID], change: Restart) -> list[Restarted]:
    """Restart those of the jobs that are dead-lettered, failed or canceled; otherwise as `restart`.

    Raises:
        IntegrityError: a live job holds the idempotency key of one; none is restarted.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    payload = f"%s{dialect.json_cast}"
    ids, params = dialects.ids_sql(job_ids)
    with transaction.atomic():
        rows = fetch(
            f"""
            UPDATE jobs_jobqueue AS j
            SET status = 'pending', series = series + 1, attempts = 0,
                deaths = {DEATHS_KEPT_SQL},
                lease_token = 0, worker_id = NULL, claimed_at = NULL, started_at = NULL,
                completed_at = NULL, cancel_requested_at = NULL, result = NULL,
                progress = NULL, progress_note = '', scheduled_at = {now}, updated_at = {now},
                expires_at = CASE WHEN expires_at <= {now} THEN NULL ELSE expires_at END,
                payload = COALESCE({payload}, payload),
                payload_version = COALESCE(%s, payload_version),
                priority = COALESCE(%s, priority),
                live_key = idempotency_key, {queue_columns_sql()}
            WHERE job_id IN (SELECT r.id FROM {ids}) AND status IN ({dialects.statuses_sql(RETRYABLE)})
            RETURNING job_id, firm_id, category, series, lock_key
            """,
            [
                change.payload,
                change.payload_version,
                change.priority,
                *params,
            ],
        )
        if rows:
            _count_again([(firm_id, dialect.read_uuid(job_id)) for job_id, firm_id, *_ in rows])
    return [Restarted(dialect.read_uuid(job_id), *columns) for job_id, *columns in rows]


def _derive(job_id: UUID, columns: Mapping[str, str | int | None]) -> None:
    """Write these columns; call it before the restart, which queues the job by its columns."""
    run(
        f"UPDATE jobs_jobqueue SET {', '.join(f'{name} = %s' for name in columns)} WHERE job_id = %s",
        [*columns.values(), dialects.current().value(Column.UUID, job_id)],
    )


def _count_again(jobs: Sequence[tuple[int, UUID]]) -> None:
    """Let the batches of these jobs, by firm and id, wait for them again."""
    columns = {"firm_id": Column.BIGINT, "job_id": Column.UUID}
    rows, params = dialects.current().rows_sql("r", columns, jobs)
    run(
        f"UPDATE jobs_batchmember AS m SET state = 'pending' FROM {rows}"
        " WHERE m.firm_id = r.firm_id AND m.job_id = r.job_id AND m.state IN ('failed', 'canceled')",
        params,
    )


def _key_holder(job_id: UUID) -> UUID | None:
    """Return the live job that holds the idempotency key of `job_id`."""
    dialect = dialects.current()
    rows = fetch(
        """
        SELECT holder.job_id FROM jobs_jobqueue mine
        JOIN jobs_jobqueue holder
          ON holder.firm_id = mine.firm_id AND holder.live_key = mine.idempotency_key
        WHERE mine.job_id = %s
        """,
        [dialect.value(Column.UUID, job_id)],
    )
    return dialect.read_uuid(rows[0][0]) if rows else None
