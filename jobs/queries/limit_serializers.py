"""Pauses, rate limits and circuit breakers as the command line and REST show them."""

from __future__ import annotations

from typing import TypedDict

from jobs.models import CircuitBreaker, Pause, RateLimit
from jobs.queries.serializers import iso
from jobs.states import BreakerState


class PauseRow(TypedDict):
    """A pause; `firm` is None where it holds everywhere."""

    id: str
    firm: str | None
    everywhere: bool
    category: str | None
    job_type: str | None
    reason: str
    paused_by: str
    created_at: str | None
    until: str | None


def pause_row(pause: Pause) -> PauseRow:
    """Return a pause; select its firm along with it."""
    return PauseRow(
        id=str(pause.pk),
        firm=None if pause.everywhere else pause.firm.slug,
        everywhere=pause.everywhere,
        category=pause.category or None,
        job_type=pause.job_type or None,
        reason=pause.reason,
        paused_by=pause.paused_by,
        created_at=iso(pause.created_at),
        until=iso(pause.until),
    )


class RateLimitRow(TypedDict):
    """A rate limit; `firm` is None where it holds everywhere."""

    id: str
    firm: str | None
    everywhere: bool
    job_type: str
    amount: int
    per_seconds: float
    burst: int
    created_at: str | None


def rate_limit_row(limit: RateLimit) -> RateLimitRow:
    """Return a rate limit; select its firm along with it."""
    return RateLimitRow(
        id=str(limit.pk),
        firm=None if limit.everywhere else limit.firm.slug,
        everywhere=limit.everywhere,
        job_type=limit.job_type,
        amount=limit.amount,
        per_seconds=limit.per_seconds,
        burst=limit.burst,
        created_at=iso(limit.created_at),
    )


class BreakerRow(TypedDict):
    """A circuit breaker; what only an open one has is None where it is closed."""

    id: str
    firm: str
    job_type: str
    state: str
    attempts: int
    failed: int
    trips: int
    fingerprint: str | None
    opened_at: str | None
    next_try_at: str | None
    probe_job_id: str | None


def breaker_row(breaker: CircuitBreaker) -> BreakerRow:
    """Return a breaker; select its firm along with it."""
    closed = breaker.state == BreakerState.CLOSED
    is_open = breaker.state == BreakerState.OPEN
    probe = breaker.probe_job_id
    return BreakerRow(
        id=str(breaker.pk),
        firm=breaker.firm.slug,
        job_type=breaker.job_type,
        state=breaker.state,
        attempts=breaker.attempts,
        failed=max(breaker.failures.values(), default=0),
        trips=breaker.trips,
        fingerprint=breaker.fingerprint or None,
        opened_at=None if closed else iso(breaker.opened_at),
        next_try_at=iso(breaker.probe_at) if is_open else None,
        probe_job_id=None if closed or probe is None else str(probe),
    )
