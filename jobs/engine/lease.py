"""A worker's own row: its lease, its heartbeat, the handlers it has started; and a job's lease."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import Error

from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.current_job import Signals
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, reading, run, run_alone
from jobs.errors import LeaseLost
from jobs.models import JobQueue
from jobs.models.base import pack_ids

# How many heartbeats a worker sends in the time of one lease.
HEARTBEATS_PER_LEASE = 4


@dataclass(frozen=True, kw_only=True)
class WorkerInfo:
    """What a worker stores about itself."""

    worker_id: UUID
    host: str
    pid: int
    version: str
    categories: Sequence[str]
    job_types: Sequence[str]
    concurrency: int


@dataclass(frozen=True)
class JobLease:
    """What an attempt holds of its job: transactions of its own check the lease token."""

    job_id: UUID
    firm_id: int
    lease_token: int

    def is_held(self) -> bool:
        """Lock the job's row, with its firm in scope; say whether it is still the attempt's."""
        held = JobQueue.objects.filter(
            pk=self.job_id, firm_id=self.firm_id, lease_token=self.lease_token
        )
        return bool(held.select_for_update(no_key=True).exists())

    def require(self) -> None:
        """Check the lease token, as `is_held` does.

        Raises:
            LeaseLost: the job is no longer this attempt's.
        """
        if not self.is_held():
            raise LeaseLost(f"job {self.job_id} is no longer this attempt's")


def register(worker: WorkerInfo) -> bool:
    """Create the worker's row with a fresh lease, or extend the lease when the row exists.

    Returns False if the worker was marked dead in the meantime.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    values = [
        dialect.value(Column.UUID, worker.worker_id),
        worker.host,
        worker.pid,
        worker.version,
        json.dumps(list(worker.categories)),
        json.dumps(list(worker.job_types)),
        worker.concurrency,
        pack_ids(()),
    ]

    def insert() -> int:
        run(
            f"INSERT INTO jobs_workerversion (version, first_seen_at) VALUES (%s, {now})"
            " ON CONFLICT DO NOTHING",
            [worker.version],
        )
        return run(
            f"""
            INSERT INTO jobs_worker (
                id, host, pid, version, categories, job_types, concurrency, running, rss_bytes,
                started_at, heartbeat_at, lease_expires_at
            ) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 0, {now}, {now},
                {dialect.after_sql(now, "%s")})
            ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at,
                lease_expires_at = excluded.lease_expires_at
            WHERE jobs_worker.dead_at IS NULL
            """,
            [*values, lease_seconds()],
        )

    return in_transaction(insert) == 1


def heartbeat(worker_id: UUID, rss_bytes: int | None) -> bool:
    """Extend the lease; return False if the worker was marked dead and must stop its work.

    `rss_bytes` None keeps the stored value.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    touched = in_transaction(
        lambda: run(
            f"""
            UPDATE jobs_worker SET heartbeat_at = {now}, rss_bytes = COALESCE(%s, rss_bytes),
                lease_expires_at = {dialect.after_sql(now, "%s")}
            WHERE id = %s AND dead_at IS NULL
            """,
            [rss_bytes, lease_seconds(), dialect.value(Column.UUID, worker_id)],
        )
    )
    return touched == 1


def read_request(worker_id: UUID) -> str:
    """Return what an operator asks of the worker: a `WorkerRequest`, or "" to work."""
    worker = dialects.current().value(Column.UUID, worker_id)
    rows = reading(lambda: fetch("SELECT requested FROM jobs_worker WHERE id = %s", [worker]))
    return str(rows[0][0]) if rows else ""


def write_request(worker_id: UUID, request: str) -> bool:
    """Ask this of the worker at its next heartbeat; return False if it is gone or marked dead."""
    touched = in_transaction(
        lambda: run(
            "UPDATE jobs_worker SET requested = %s WHERE id = %s AND dead_at IS NULL",
            [request, dialects.current().value(Column.UUID, worker_id)],
        )
    )
    return touched == 1


def note_running(worker_id: UUID, ids: bytes) -> bool:
    """Store the ids of the jobs whose handlers run (`pack_ids`); call it before they start.

    If the worker dies, these attempts count, and those of its other claims are refunded.
    Returns False if the worker was marked dead: then nothing may start.
    """
    dialect = dialects.current()
    answer = run_alone(
        "UPDATE jobs_worker SET running = %s WHERE id = %s AND dead_at IS NULL",
        [ids, dialect.value(Column.UUID, worker_id)],
        fixed=True,
    )
    return answer.touched == 1


def mark_processing(claims: Sequence[Claim]) -> set[UUID]:
    """Set `processing` on jobs whose handlers have been running for a while; return their ids.

    Rows that a handler has locked in its own transaction are skipped: the heartbeat must not wait.
    """
    if not claims:
        return set()
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, "token": Column.BIGINT},
        sorted((claim.job_id, claim.lease_token) for claim in claims),
    )
    marked = in_transaction(
        lambda: fetch(
            f"""
            UPDATE jobs_jobqueue AS j
            SET status = 'processing', started_at = {now}, updated_at = {now}
            WHERE j.job_id IN (
                SELECT q.job_id FROM jobs_jobqueue q
                WHERE (q.job_id, q.lease_token) IN (SELECT r.id, r.token FROM {rows})
                {dialect.skip_locked}
            )
            RETURNING job_id
            """,
            params,
        )
    )
    return {dialect.read_uuid(row[0]) for row in marked}


def still_held(claim: Claim) -> bool:
    """Say whether the job still carries this claim's token."""
    dialect = dialects.current()
    found = reading(
        lambda: fetch(
            "SELECT 1 FROM jobs_jobqueue WHERE job_id = %s AND lease_token = %s",
            [dialect.value(Column.UUID, claim.job_id), claim.lease_token],
        )
    )
    return bool(found)


def is_lost(claim: Claim, signals: Signals) -> bool:
    """Say whether the attempt has lost its lease; a handler may raise LeaseLost for other reasons.

    A job whose cancel was requested counts as lost, and so does one whose row cannot be read.
    """
    if signals.lease_lost.is_set() or signals.cancel_requested or signals.completion_refused:
        return True
    try:
        return not still_held(claim)
    except Error:
        return True


def cancel_requested(job_ids: list[UUID]) -> set[UUID]:
    """Return those of the jobs that an operator asked to stop."""
    if not job_ids:
        return set()
    dialect = dialects.current()
    rows, params = dialects.ids_sql(job_ids)
    found = reading(
        lambda: fetch(
            f"SELECT j.job_id FROM jobs_jobqueue j JOIN {rows} ON j.job_id = r.id"
            " WHERE j.cancel_requested_at IS NOT NULL",
            params,
        )
    )
    return {dialect.read_uuid(row[0]) for row in found}


def deregister(worker_id: UUID) -> None:
    """Delete the row of a worker that has no jobs any more."""
    dialect = dialects.current()
    in_transaction(
        lambda: run(
            "DELETE FROM jobs_worker WHERE id = %s", [dialect.value(Column.UUID, worker_id)]
        )
    )
