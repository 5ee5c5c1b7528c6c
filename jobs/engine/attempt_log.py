"""Stores what a handler noted in an attempt, fenced by the lease token."""

from __future__ import annotations

import json
from collections.abc import Sequence

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.transactions import in_transaction, run


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
