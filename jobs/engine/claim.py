"""Takes jobs for a worker: by priority, then the firm's turn, then due time, then id."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects.base import Claimable, Column, Dialect, Share, Walk
from jobs.engine.gates import claim_guard_sql
from jobs.engine.transactions import fetch, in_transaction
from jobs.engine.turns import DEFAULT_WEIGHT, LEAST_WEIGHT, Line, Place, Turns
from jobs.states import Priority

# Other workers may take all that was seen before it is taken here: then there may be more behind.
LOOKS = 4
WEIGHTS_SECONDS = 1.0


class Claim(NamedTuple):
    """A job as its worker holds it: everything needed to run it, frozen at the claim.

    Its fields come in the order of CLAIM_COLUMNS.
    """

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
    admitted: bool
    worker_id: UUID
    waited_seconds: float


@dataclass(frozen=True)
class Request:
    """Who claims, how many, of what; no categories or types means all."""

    worker_id: UUID
    limit: int
    categories: tuple[str, ...]
    job_types: tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """What one look took, and where it leaves the turn of its priority."""

    priority: int
    claims: list[Claim]
    place: Place


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
    request = Request(worker_id, limit, categories, job_types)
    for _ in range(LOOKS):
        batch = in_transaction(lambda: _claim(request, turns))
        if batch is None:
            break
        turns.places[batch.priority] = batch.place
        if batch.claims:
            return batch.claims
    return []


def claim_one(worker_id: UUID, job_id: UUID, *, firm_id: int, priority: int) -> Claim | None:
    """Take this job out of its turn, if it may run now; None when it may not."""

    def take() -> list[tuple[Any, ...]]:
        dialect = dialects.current()
        any_job = claimable()
        this_job = Claimable(
            f"{any_job.sql} AND q.job_id = %s", [dialect.value(Column.UUID, job_id)]
        )
        return dialect.take(worker_id, priority, [Share(firm_id, 1)], this_job)

    rows = in_transaction(take)
    return _read(dialects.current(), rows[0], worker_id) if rows else None


def _claim(request: Request, turns: Turns) -> Batch | None:
    """Look who has work, deal the batch out, take the jobs. None: nobody has work."""
    dialect = dialects.current()
    wanted = claimable(request.categories, request.job_types)
    walks = [
        Walk(priority.value, turns.place(priority).start, turns.place(priority).start)
        for priority in Priority
    ]
    met = dialect.firms_with_work(walks, wanted, request.limit)
    if met is None:
        return None
    priority, firms = met
    _refresh_weights(turns)
    line = Line(turns.place(priority), turns.weights, request.limit)
    _deal(dialect, line, walks[priority], firms, wanted, request.limit)
    shares = [Share(firm_id, jobs) for firm_id, jobs in Counter(line.order).items()]
    rows = dialect.take(request.worker_id, priority, shares, wanted)
    by_firm: dict[int, list[Claim]] = defaultdict(list)
    for row in rows:
        taken = _read(dialect, row, request.worker_id)
        by_firm[taken.firm_id].append(taken)
    place = line.place_after({firm_id: len(mine) for firm_id, mine in by_firm.items()})
    return Batch(priority, _in_order(line.order, by_firm), place)


def _deal(
    dialect: Dialect,
    line: Line,
    walk: Walk,
    firms: list[int],
    wanted: Claimable,
    most: int,
) -> None:
    """Serve the firms met, and more of them until the batch is full or the walk came round.

    Firms of small weight pass most of their turns, so a batch may need more firms than jobs.
    """
    start = walk.until
    while True:
        line.visit(firms)
        if line.is_full():
            return
        if len(firms) < most or firms[-1] == start:
            break
        most *= 2
        met = dialect.firms_with_work([replace(walk, after=firms[-1])], wanted, most)
        if met is None:
            break
        firms = met[1]
    line.go_round()


def _in_order(order: list[int], by_firm: Mapping[int, list[Claim]]) -> list[Claim]:
    """Return the claims in the order of their firms' turns, each firm's by due time, then id."""
    lines = {
        firm_id: iter(sorted(mine, key=lambda claim: (claim.scheduled_at, claim.job_id)))
        for firm_id, mine in by_firm.items()
    }
    nobody: Iterator[Claim] = iter(())
    following = (next(lines.get(firm_id, nobody), None) for firm_id in order)
    return [claim for claim in following if claim is not None]


def _refresh_weights(turns: Turns) -> None:
    """Read the weights again when those at hand are old; firms change theirs hardly ever."""
    now = time.monotonic()
    if turns.weights_read_at is not None and now - turns.weights_read_at < WEIGHTS_SECONDS:
        return
    rows = fetch("SELECT id, weight FROM tenants_firm WHERE weight <> %s", [DEFAULT_WEIGHT])
    turns.weights = {firm_id: max(weight, LEAST_WEIGHT) for firm_id, weight in rows}
    turns.weights_read_at = now


def claimable(categories: Collection[str] = (), job_types: Collection[str] = ()) -> Claimable:
    """Return the condition that a job of these categories and types may be claimed now."""
    now = dialects.current().now_sql()
    sql = (
        f"q.status = 'pending' AND q.scheduled_at <= {now}"
        f" AND (q.expires_at IS NULL OR q.expires_at > {now})"
        f" AND q.attempts < q.max_attempts AND {claim_guard_sql('q')}"
    )
    params: list[str] = []
    for column, wanted in (("category", categories), ("job_type", job_types)):
        if wanted:
            sql += f" AND q.{column} IN ({', '.join(['%s'] * len(wanted))})"
            params.extend(wanted)
    return Claimable(sql, params)


def _read(dialect: Dialect, row: tuple[Any, ...], worker_id: UUID) -> Claim:
    (job_id, *columns, scheduled_at, cancel_requested_at, admitted, waited_seconds) = row
    return Claim._make(
        (
            dialect.read_uuid(job_id),
            *columns,
            dialect.read_time(scheduled_at),
            cancel_requested_at is not None,
            bool(admitted),
            worker_id,
            max(float(waited_seconds), 0.0),
        )
    )
