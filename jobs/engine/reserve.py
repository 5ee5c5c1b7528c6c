"""Reserves idempotency keys beyond the life of their jobs: for ever (once-only), or for a period."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.new_job import NewJob
from jobs.engine.transactions import fetch, run


def reserve(jobs: Sequence[NewJob]) -> dict[UUID, UUID]:
    """Reserve the keys of these jobs; return, by id, the holder of each refused job's key.

    Each must have a key. A key whose period has ended is taken over. Must run in the transaction
    that stores the jobs.
    """
    dialect = dialects.current()
    # One statement must not touch a key twice: only the first job of each asks for it.
    first = {(job.firm_id, job.idempotency_key): job for job in reversed(jobs)}
    rows, params = dialect.rows_sql(
        "r",
        {
            "firm_id": Column.BIGINT,
            "key": Column.TEXT,
            "job_id": Column.UUID,
            "seconds": Column.FLOAT,
        },
        [(*key, job.job_id, job.unique_for) for key, job in sorted(first.items())],
    )
    now = dialect.now_sql()
    run(
        f"""
        INSERT INTO jobs_idempotencykey (id, firm_id, key, job_id, created_at, expires_at)
        SELECT r.job_id, r.firm_id, r.key, r.job_id, {now}, {_end_sql(now)}
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, key) DO UPDATE
        SET id = excluded.id, job_id = excluded.job_id, created_at = excluded.created_at,
            expires_at = excluded.expires_at
        WHERE jobs_idempotencykey.expires_at <= {now}
        """,
        params,
    )
    rows, params = dialect.rows_sql(
        "r",
        {"firm_id": Column.BIGINT, "key": Column.TEXT, "job_id": Column.UUID},
        [(job.firm_id, job.idempotency_key, job.job_id) for job in jobs],
    )
    holders = fetch(
        f"""
        SELECT r.job_id, k.job_id FROM {rows}
        JOIN jobs_idempotencykey k ON k.firm_id = r.firm_id AND k.key = r.key
        WHERE k.job_id <> r.job_id
        """,
        params,
    )
    return {dialect.read_uuid(mine): dialect.read_uuid(theirs) for mine, theirs in holders}


def pass_on(refused: Sequence[NewJob], stands_for: dict[UUID, UUID]) -> None:
    """Let the keys that these refused jobs reserved name the live jobs that have their live keys.

    A period counts from when the live job was enqueued.
    """
    if not refused:
        return
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {
            "mine": Column.UUID,
            "holder": Column.UUID,
            "firm": Column.BIGINT,
            "seconds": Column.FLOAT,
        },
        [(job.job_id, stands_for[job.job_id], job.firm_id, job.unique_for) for job in refused],
    )
    run(
        f"""
        UPDATE jobs_idempotencykey AS k
        SET job_id = r.holder, expires_at = {_end_sql("j.created_at")}
        FROM {rows} JOIN jobs_jobqueue j ON j.job_id = r.holder
        WHERE k.id = r.mine AND k.firm_id = r.firm
        """,
        params,
    )


def _end_sql(start: str) -> str:
    end = dialects.current().after_sql(start, "r.seconds")
    return f"CASE WHEN r.seconds IS NOT NULL THEN {end} END"
