"""Takes jobs for a worker: by priority, then the firm's turn, then due time, then id."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects.base import Column, Dialect
from jobs.engine.dialects.claiming import Claimable, Mark, Met, Share, Walk, named_sql
from jobs.engine.fair_share import DEFAULT_WEIGHT, LEAST_WEIGHT, Line, Place, Turns
from jobs.engine.limit_sql import capped_firm_sql, claim_guard_sql, still_firm_sql
from jobs.engine.rounds import Round
from jobs.engine.transactions import fetch_in_one_trip, in_transaction, in_trips
from jobs.states import Priority

# Other workers may take all that was seen before it is taken here: then there may be more behind.
LOOKS = 4
WEIGHTS_SECONDS = 1.0
WEIGHTS_SQL = f"SELECT id, weight FROM tenants_firm WHERE weight <> {DEFAULT_WEIGHT}"


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
    # It counts as started since the claim; of any other, the worker's row has to say so first.
    started: bool
    worker_id: UUID
    waited_seconds: float


@dataclass(frozen=True)
class Request:
    """Who claims, how many, of what; no categories or types means all.

    `starts`: whether a job that is taken alone starts at once.
    """

    worker_id: UUID
    limit: int
    categories: tuple[str, ...]
    job_types: tuple[str, ...]
    starts: bool


@dataclass(frozen=True)
class Batch:
    """What was taken at once, where that leaves the turn of its priority, and the round that is on."""

    priority: int
    claims: list[Claim]
    place: Place
    round: Round | None


def claim(
    worker_id: UUID,
    limit: int,
    turns: Turns,
    *,
    categories: tuple[str, ...] = (),
    job_types: tuple[str, ...] = (),
    starts: bool = False,
) -> list[Claim]:
    """Take up to `limit` jobs, in the order they should run, and move `turns` on.

    All of one batch have the same priority; fewer than `limit` does not mean there are no more:
    only an empty answer does, and to a claim of many (LEAST_BATCH) not before the end of a round
    that began with a costly look (`engine.rounds`). Each has its attempt counted. No transaction
    may be open. With `starts`, a job that is taken alone and is no suspect comes back as `started`:
    if the worker dies, that attempt counts, so the caller must start it now or release it.
    """
    request = Request(worker_id, limit, categories, job_types, starts)
    for _ in range(LOOKS):
        batch = in_trips(lambda: _claim(request, turns))
        if batch is None:
            turns.round = None
            break
        turns.places[batch.priority] = batch.place
        turns.round = batch.round
        if batch.claims or (batch.round is not None and batch.round.is_drained):
            return batch.claims
    return []


def claim_one(worker_id: UUID, job_id: UUID, *, firm_id: int, priority: int) -> Claim | None:
    """Take this job out of its turn, if it may run now; None when it may not."""

    def take() -> list[tuple[Any, ...]]:
        dialect = dialects.current()
        any_job = claimable()
        this_job = replace(
            any_job,
            sql=f"{any_job.sql} AND q.job_id = %s",
            params=(dialect.value(Column.UUID, job_id),),
        )
        usual, capped = Share(firm_id, 1), Share(firm_id, 1, capped=True)
        return dialect.take(worker_id, priority, [usual], this_job) or dialect.take(
            worker_id, priority, [capped], this_job
        )

    rows = in_transaction(take)
    return _read(dialects.current(), rows[0], worker_id) if rows else None


def _claim(request: Request, turns: Turns) -> Batch | None:
    """Look who has work where that is not known, deal the batch out, take it. None: nobody has."""
    _refresh_weights(turns)
    begun = time.monotonic()
    wanted = claimable(request.categories, request.job_types)
    known = turns.known_round(request.limit, begun)
    walks = _walks(turns, known, begun)
    met = dialects.current().firms_with_work(walks, wanted, request.limit) if walks else None
    if known is None:
        return None if met is None else _serve_met(request, wanted, turns, met, begun)
    if met is not None and met.priority < known.priority:
        # The known round, whose jobs are less urgent than these, goes on after them.
        return replace(_serve_met(request, wanted, turns, met, begun), round=known)
    less_urgent = met is not None and met.priority > known.priority
    if walks:
        known = known.joined_by(None if less_urgent else met, begun, time.monotonic())
    served = _serve_known(request, wanted, turns, known)
    if served.claims or met is None or not less_urgent:
        return served
    return _serve_met(request, wanted, turns, met, begun)


def _walks(turns: Turns, known: Round | None, now: float) -> list[Walk]:
    """Return where to look: everywhere, or past what is known, or nowhere."""
    if known is not None and now < known.glance_at:
        return []
    whole = [
        Walk(priority.value, turns.place(priority).start, turns.place(priority).start)
        for priority in Priority
    ]
    if known is None:
        return whole
    besides = replace(whole[known.priority], besides=known.known)
    rest = whole[known.priority + 1 :] if known.is_drained else []
    return [*whole[: known.priority], besides, *rest]


def _serve_known(request: Request, wanted: Claimable, turns: Turns, known: Round) -> Batch:
    if known.is_drained:
        known = known.with_dry()
    line = Line(turns.place(known.priority), turns.weights, request.limit)
    line.visit(known.in_turn(turns.place(known.priority).start))
    line.go_round()
    return _take(request, wanted, line, known)


def _serve_met(request: Request, wanted: Claimable, turns: Turns, met: Met, begun: float) -> Batch:
    """Serve the firms met, and more until the batch is full; a round begins where these are all.

    `begun` is when the look at them began, by the monotonic clock.
    Firms of small weight pass most of their turns, so a batch may need more firms than jobs.
    """
    place = turns.place(met.priority)
    line = Line(place, turns.weights, request.limit)
    most = request.limit
    seen = met
    while True:
        line.visit(met.firms)
        came_round = len(met.firms) < most or met.firms[-1] == place.start
        if came_round or line.is_full():
            break
        most *= 2
        rest = Walk(met.priority, met.firms[-1], place.start)
        more = dialects.current().firms_with_work([rest], wanted, most)
        if more is None:
            came_round = True
            break
        met = more
        seen = seen.and_then(met)
    if came_round:
        line.go_round()
    served = _take(request, wanted, line, Round.of(seen).timed(begun, time.monotonic()))
    return served if came_round else replace(served, round=None)


def _take(request: Request, wanted: Claimable, line: Line, seen: Round) -> Batch:
    """Take what was dealt out, and see whether the round goes on after that."""
    dialect = dialects.current()
    shares = [seen.share(firm_id, jobs) for firm_id, jobs in Counter(line.order).items()]
    by_firm: dict[int, list[Claim]] = {share.firm_id: [] for share in shares}
    rows = dialect.take(request.worker_id, seen.priority, shares, wanted, starts=request.starts)
    for row in rows:
        taken = _read(dialect, row, request.worker_id)
        by_firm[taken.firm_id].append(taken)
    for mine in by_firm.values():
        mine.sort(key=lambda claim: (claim.scheduled_at, claim.job_id))
    place = line.place_after({firm_id: len(mine) for firm_id, mine in by_firm.items()})
    claims = _in_order(line.order, by_firm)
    goes_on = seen.served(
        last={
            firm_id: Mark(mine[-1].scheduled_at, mine[-1].job_id)
            for firm_id, mine in by_firm.items()
            if mine
        },
        dry={share.firm_id for share in shares if len(by_firm[share.firm_id]) < share.jobs},
    )
    lasting = goes_on.goes_on_after(len(claims), request.limit)
    return Batch(seen.priority, claims, place, goes_on if lasting else None)


def _in_order(order: list[int], by_firm: Mapping[int, list[Claim]]) -> list[Claim]:
    """Return the claims in the order of their firms' turns."""
    lines = {firm_id: iter(mine) for firm_id, mine in by_firm.items()}
    following = (next(lines[firm_id], None) for firm_id in order)
    return [claim for claim in following if claim is not None]


def _refresh_weights(turns: Turns) -> None:
    """Read the weights again when those at hand are old; firms change theirs hardly ever."""
    now = time.monotonic()
    if turns.weights_read_at is not None and now - turns.weights_read_at < WEIGHTS_SECONDS:
        return
    rows = fetch_in_one_trip(WEIGHTS_SQL, [])
    turns.weights = {firm_id: max(weight, LEAST_WEIGHT) for firm_id, weight in rows}
    turns.weights_read_at = now


def claimable(categories: Collection[str] = (), job_types: Collection[str] = ()) -> Claimable:
    """Return the condition that a job of these categories and types may be claimed now."""
    return _claimable(tuple(categories), tuple(job_types), dialects.current().now_sql())


@lru_cache(maxsize=16)
def _claimable(categories: tuple[str, ...], job_types: tuple[str, ...], now: str) -> Claimable:
    # Composed once: cold as it is in an idle worker, it would delay the job it claims.
    sql = (
        f"q.status = 'pending' AND q.scheduled_at <= {now}"
        f" AND (q.expires_at IS NULL OR q.expires_at > {now})"
        f" AND q.attempts < q.max_attempts AND {claim_guard_sql('q')}"
    )
    named, params = named_sql("q", categories, job_types)
    return Claimable(
        sql=f"{sql} AND {named}" if params else sql,
        params=tuple(params),
        categories=categories,
        job_types=job_types,
        still=still_firm_sql("turn"),
        capped=capped_firm_sql("turn"),
    )


def _read(dialect: Dialect, row: tuple[Any, ...], worker_id: UUID) -> Claim:
    (job_id, *columns, scheduled_at, cancel_requested_at, admitted, started_at, waited_seconds) = (
        row
    )
    return Claim._make(
        (
            dialect.read_uuid(job_id),
            *columns,
            dialect.read_time(scheduled_at),
            cancel_requested_at is not None,
            bool(admitted),
            started_at is not None,
            worker_id,
            max(float(waited_seconds), 0.0),
        )
    )
