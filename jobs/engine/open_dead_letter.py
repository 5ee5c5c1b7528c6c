"""Opens dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.outcomes import Failure
from jobs.engine.transactions import run
from jobs.states import DeadReason


@dataclass(frozen=True, kw_only=True)
class Death:
    """A job that just became `dlq`."""

    firm_id: int
    job_id: UUID
    series: int
    reason: DeadReason
    failure: Failure


def bury(deaths: Sequence[Death]) -> None:
    """Open a dead letter for each. Must join the transaction that set the jobs' status."""
    if not deaths:
        return
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {
            "id": Column.UUID,
            "firm_id": Column.BIGINT,
            "job_id": Column.UUID,
            "series": Column.INTEGER,
            "reason": Column.TEXT,
            "error_class": Column.TEXT,
            "error": Column.TEXT,
            "fingerprint": Column.TEXT,
        },
        [
            (
                uuid7(),
                death.firm_id,
                death.job_id,
                death.series,
                death.reason.value,
                death.failure.error_class,
                death.failure.message,
                death.failure.fingerprint,
            )
            for death in deaths
        ],
    )
    run(
        f"""
        INSERT INTO jobs_deadletterqueue (
            id, firm_id, original_job_id, job_series, moved_at, reason, error_class, error,
            fingerprint, resolution, resolution_note
        )
        SELECT r.id, r.firm_id, r.job_id, r.series, {dialect.now_sql()}, r.reason, r.error_class,
            r.error, r.fingerprint, '', ''
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, original_job_id, job_series) DO NOTHING
        """,
        params,
    )
