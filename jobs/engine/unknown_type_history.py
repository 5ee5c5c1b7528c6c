"""How long a job of an unknown type has been handed back already."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, reading

UNKNOWN_REASON = "unknown type or payload version"


@dataclass(frozen=True)
class Parking:
    """How often, and since how many seconds, this series was released as unknown."""

    times: int
    seconds: float
    reason: str = UNKNOWN_REASON


def parked(claim: Claim) -> Parking:
    """Look the releases up in the job's history."""
    return reading(lambda: _parked(claim))


def _parked(claim: Claim) -> Parking:
    dialect = dialects.current()
    times, seconds = fetch(
        f"""
        SELECT count(*), COALESCE(max({dialect.seconds_between_sql("ended_at", dialect.now_sql())}), 0)
        FROM jobs_attempt
        WHERE job_id = %s AND series = %s AND "end" = 'released' AND message = %s
        """,
        [dialect.value(Column.UUID, claim.job_id), claim.series, UNKNOWN_REASON],
    )[0]
    return Parking(times, float(seconds))
