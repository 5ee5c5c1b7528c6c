"""Stores the records of ended attempts, their dead letters, and what handlers noted."""

from __future__ import annotations

import json
from collections.abc import Sequence

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.engine.transition import Transition

UNKNOWN_TYPE_REASON = "unknown type or payload version"


def record_attempts(ended: Sequence[Transition]) -> None:
    """Store the attempts that did not complete their jobs, in the open transaction."""
    table = [
        (
            uuid7(),
            one.job.firm_id,
            one.job.job_id,
            one.job.series,
            one.job.attempts,
            one.job.worker_id,
            one.end.value,
            one.failure.error_class,
            one.failure.message,
            one.failure.traceback,
            one.ran_seconds,
        )
        for one in ended
        if one.end is not None
    ]
    if not table:
        return
    dialect = dialects.current()
    now = dialect.now_sql()
    columns = {
        "id": Column.UUID,
        "firm_id": Column.BIGINT,
        "job_id": Column.UUID,
        "series": Column.INTEGER,
        "number": Column.INTEGER,
        "worker_id": Column.UUID,
        "ending": Column.TEXT,
        "error_class": Column.TEXT,
        "message": Column.TEXT,
        "traceback": Column.TEXT,
        "ran": Column.FLOAT,
    }
    rows, params = dialect.rows_sql("r", columns, table)
    started = f"CASE WHEN r.ran IS NOT NULL THEN {dialect.after_sql(now, '-r.ran')} END"
    run(
        f"""
        INSERT INTO jobs_attempt (
            id, firm_id, job_id, series, number, worker_id, "end", error_class, message, traceback,
            started_at, ended_at
        )
        SELECT r.id, r.firm_id, r.job_id, r.series, r.number, r.worker_id, r.ending, r.error_class,
            r.message, r.traceback, {started}, {now}
        FROM {rows}
        """,
        params,
    )


def open_dead_letters(ended: Sequence[Transition]) -> None:
    """Open the dead letters of these attempts, in the open transaction."""
    table = [
        (
            uuid7(),
            one.job.firm_id,
            one.job.job_id,
            one.job.series,
            one.job.category,
            one.job.job_type,
            one.dead_letter[0].value,
            one.dead_letter[1].error_class,
            one.dead_letter[1].message,
            one.dead_letter[1].fingerprint,
        )
        for one in ended
        if one.dead_letter is not None
    ]
    if not table:
        return
    dialect = dialects.current()
    columns = {
        "id": Column.UUID,
        "firm_id": Column.BIGINT,
        "job_id": Column.UUID,
        "series": Column.INTEGER,
        "category": Column.TEXT,
        "job_type": Column.TEXT,
        "reason": Column.TEXT,
        "error_class": Column.TEXT,
        "error": Column.TEXT,
        "fingerprint": Column.TEXT,
    }
    rows, params = dialect.rows_sql("r", columns, table)
    run(
        f"""
        INSERT INTO jobs_deadletterqueue (
            id, firm_id, original_job_id, job_series, category, job_type, moved_at, reason,
            error_class, error, fingerprint, resolution, resolution_note
        )
        SELECT r.id, r.firm_id, r.job_id, r.series, r.category, r.job_type, {dialect.now_sql()},
            r.reason, r.error_class, r.error, r.fingerprint, '', ''
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, original_job_id, job_series) DO NOTHING
        """,
        params,
    )


def unknown_type_releases(claim: Claim) -> tuple[int, float]:
    """Return how often this series was released for its unknown type, and for how many seconds."""
    dialect = dialects.current()
    ago = dialect.seconds_between_sql("ended_at", dialect.now_sql())
    rows = reading(
        lambda: fetch(
            f"""
            SELECT count(*), COALESCE(max({ago}), 0) FROM jobs_attempt
            WHERE firm_id = %s AND job_id = %s AND series = %s AND "end" = 'released' AND message = %s
            """,
            [
                claim.firm_id,
                dialect.value(Column.UUID, claim.job_id),
                claim.series,
                UNKNOWN_TYPE_REASON,
            ],
        )
    )
    times, seconds = rows[0]
    return times, float(seconds)


def save_log(claim: Claim, lines: Sequence[tuple[str, str]]) -> bool:
    """Store the lines (pairs of time and text) of this attempt; return False if the claim is stale.

    A claim that settled its job in `ctx.transaction()` may still store them; the row then has the
    negated token.
    """
    dialect = dialects.current()
    return in_transaction(
        lambda: (
            run(
                f"""
                INSERT INTO jobs_attemptlog (id, firm_id, job_id, series, number, lines)
                SELECT %s, j.firm_id, j.job_id, %s, %s, %s{dialect.json_cast}
                FROM jobs_jobqueue j
                WHERE j.job_id = %s AND j.lease_token IN (%s, %s)
                """,
                [
                    dialect.value(Column.UUID, uuid7()),
                    claim.series,
                    claim.attempts,
                    json.dumps(lines),
                    dialect.value(Column.UUID, claim.job_id),
                    claim.lease_token,
                    -claim.lease_token,
                ],
            )
            == 1
        )
    )
