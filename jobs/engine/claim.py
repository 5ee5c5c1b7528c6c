"""Takes jobs for a worker: by priority, then the firm's turn, then due time, then id."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects.base import CLAIM_COLUMNS, ClaimRequest, Dialect
from jobs.engine.transactions import in_transaction


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A job as its worker holds it: everything needed to run it, frozen at the claim."""

    job_id: UUID
    firm_id: int
    user_id: int | None
    category: str
    job_type: str
    payload_version: str
    payload: str
    correlation_id: str
    priority: int
    attempts: int
    max_attempts: int
    series: int
    deaths: int
    lease_token: int
    lock_key: str | None
    scheduled_at: datetime
    cancel_requested: bool
    worker_id: UUID
    waited_seconds: float


@dataclass
class Turns:
    """Whose turn it is, per priority; each worker keeps its own in memory."""

    served: dict[int, int] = field(default_factory=dict)


def claim(
    worker_id: UUID,
    limit: int,
    turns: Turns,
    *,
    categories: tuple[str, ...] = (),
    job_types: tuple[str, ...] = (),
) -> list[Claim]:
    """Take up to `limit` jobs, in the order they should run, and move `turns` on.

    All of one batch have the same priority; fewer than `limit` does not mean there are no more:
    only an empty answer does. Each has its attempt counted. No transaction may be open.
    """
    dialect = dialects.current()
    request = ClaimRequest(worker_id, limit, turns.served, categories, job_types)
    rows = in_transaction(lambda: dialect.claim(request))
    if not rows:
        return []
    by_turn: dict[int, list[Claim]] = {}
    for row in rows:
        by_turn.setdefault(int(row[-2]), []).append(_claim(dialect, row, worker_id))
    for mine in by_turn.values():
        mine.sort(key=lambda claim: (claim.scheduled_at, claim.job_id))
    last = by_turn[max(by_turn)][0]
    turns.served[last.priority] = last.firm_id
    shares = [by_turn[turn] for turn in sorted(by_turn)]
    return [claim for lap in zip_longest(*shares) for claim in lap if claim is not None]


def _claim(dialect: Dialect, row: tuple[Any, ...], worker_id: UUID) -> Claim:
    values = dict(zip(CLAIM_COLUMNS, row, strict=False))
    values["job_id"] = dialect.read_uuid(values["job_id"])
    values["scheduled_at"] = dialect.read_time(values["scheduled_at"])
    values["cancel_requested"] = values.pop("cancel_requested_at") is not None
    return Claim(**values, worker_id=worker_id, waited_seconds=max(float(row[-1]), 0.0))
