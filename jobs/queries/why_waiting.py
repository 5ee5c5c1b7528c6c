"""Why a job is not running: the reasons, in the order an operator would check them.

Limits are read whatever the reader's scope, because a limit for every firm holds back this firm's
jobs too. Nothing about other firms is returned: only the firm's own jobs are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from jobs import registry
from jobs.engine import dialects
from jobs.engine.candidates import Q_KEY, Q_LIMIT_KEY
from jobs.engine.clock import database_now
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import COUNTED, NOT_CLOSED, matches_pause_sql
from jobs.engine.rates import BucketKey
from jobs.engine.token_bucket import next_tokens
from jobs.engine.transactions import fetch, reading
from jobs.models import ConcurrencyLock, JobQueue, Worker
from jobs.models.limits import JOB_HOLDER, held_at
from jobs.queries.durations import in_words
from jobs.queries.locks import held_by_jobs_of, slots_of_all_firms
from jobs.queries.probes import probe_in_words
from jobs.states import BreakerState, CountedBy, Status

# Jobs ahead of one are counted up to this: in its lock key's queue, and in a rate limit.
MAX_AHEAD, MAX_AHEAD_IN_RATE = 1000, 10_000


class WaitCode(StrEnum):
    """The codes of the reasons."""

    SCHEDULED = "scheduled"
    FIRM_INACTIVE = "firm_inactive"
    PAUSED = "paused"
    CAPPED = "capped"
    RATE_LIMITED = "rate_limited"
    BREAKER = "breaker"
    LOCKED = "locked"
    NO_WORKER = "no_worker"
    NO_WORKER_FOR_CATEGORY = "no_worker_for_category"
    UNKNOWN_TYPE = "unknown_type"

    @property
    def words(self) -> str:
        """The code as a person would write it."""
        return self.value.replace("_", " ")


# Reasons that do not matter to code which runs the job itself, without a worker.
OF_WORKERS = frozenset({WaitCode.NO_WORKER, WaitCode.NO_WORKER_FOR_CATEGORY, WaitCode.UNKNOWN_TYPE})


@dataclass(frozen=True)
class WaitReason:
    """One reason why a job waits; `until` is when it ends, if that is known."""

    code: WaitCode
    detail: str
    until: datetime | None = None


def why_waiting(job: JobQueue) -> list[WaitReason]:
    """Return what keeps a pending job from running; empty for any other status.

    Also empty for a pending job that a worker will claim when it is free.
    """
    if job.status != Status.PENDING:
        return []
    now = database_now()
    if getattr(job, "firm", None) is None:
        return [WaitReason(WaitCode.FIRM_INACTIVE, f"firm {job.firm_id} no longer exists")]
    return [
        *_own_reasons(job, now),
        # In one transaction; otherwise each query would open its own.
        *reading(lambda: _limit_reasons(job, now)),
        *_lock_reasons(job, now),
        *_worker_reasons(job, now),
    ]


def _limit_reasons(job: JobQueue, now: datetime) -> list[WaitReason]:
    return [
        *_pause_reasons(job),
        *_cap_reasons(job),
        *_rate_reasons(job, now),
        *_breaker_reasons(job),
    ]


def _own_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    if job.scheduled_at > now:
        wait = in_words((job.scheduled_at - now).total_seconds())
        yield WaitReason(WaitCode.SCHEDULED, f"scheduled in {wait}", job.scheduled_at)
    if not job.firm.active:
        yield WaitReason(WaitCode.FIRM_INACTIVE, f"firm {job.firm.slug} is not active")


def _pause_reasons(job: JobQueue) -> Iterator[WaitReason]:
    """Return the pauses that cover the job, widest first; of one for every firm not who made it."""
    dialect = dialects.current()
    rows = _read(
        f"""
        SELECT p.everywhere, p.category, p.job_type, p.limit_key, p.reason, p.paused_by, p.until
        FROM jobs_pause p JOIN jobs_jobqueue q ON q.job_id = %s
        WHERE {matches_pause_sql("p", "q")}
        ORDER BY p.everywhere DESC, p.category, p.job_type, p.limit_key
        """,
        [dialect.value(Column.UUID, job.pk)],
    )
    for everywhere, category, job_type, limit_key, reason, paused_by, until in rows:
        what = [
            f"{noun} {word}"
            for noun, word in (
                ("limit key", limit_key),
                ("type", job_type),
                ("category", category),
            )
            if word
        ]
        where = "for every firm" if everywhere else f"for firm {job.firm.slug}"
        subject = " in ".join(what) or "everything"
        who = f" by {paused_by}" if paused_by and not everywhere else ""
        detail = f"{subject} is paused {where}{who}: {reason}"
        yield WaitReason(WaitCode.PAUSED, detail, dialect.read_time(until))


def _cap_reasons(job: JobQueue) -> Iterator[WaitReason]:
    cap = job.firm.running_cap
    if cap is None or job.admitted:
        return
    ((counted,),) = _read(
        f"SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = %s", [job.firm_id]
    )
    if counted >= cap:
        detail = f"firm {job.firm.slug} may run {cap} at once and is running {counted}"
        yield WaitReason(WaitCode.CAPPED, detail)


def _rate_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    """Return the rates whose tokens the job waits for; other firms' waiting jobs are not told."""
    if job.admitted:
        return
    for key, rate, next_at in reading(
        lambda: next_tokens(job.firm_id, job.job_type, job.limit_key, job.limit_units)
    ):
        if next_at is not None and next_at > now:
            of_key = f" with the limit key {key.limit_key}" if key.limit_key else ""
            of_all = " of all firms" if key.counted_by == CountedBy.ALL_FIRMS else ""
            jobs, units = _ahead_in(key, job)
            own_at = next_at + rate.time_for(units)
            wait = in_words((own_at - now).total_seconds())
            own = rate.units(job.limit_units)
            first = "the next one may start" if own == 1 else f"this job of {own} units may start"
            turn = f"jobs ahead of it: {_number(jobs, MAX_AHEAD_IN_RATE)}; it may start in about"
            what = f"{rate.amount} units" if own > 1 else f"{rate.amount}"
            detail = (
                f"rate limit of {key.job_type or 'all types'}{of_key}{of_all}: at most {what}"
                f" in {in_words(rate.per_seconds)}; {turn if jobs else f'{first} in'} {wait}"
            )
            yield WaitReason(WaitCode.RATE_LIMITED, detail, own_at)


def _ahead_in(key: BucketKey, job: JobQueue) -> tuple[int, int]:
    """Return how many jobs of the firm wait for the bucket before this one, and their units.

    For a bucket of all firms both are 0: the firms take turns, so the order says nothing.
    """
    alike = {
        f"{column} = %s": value
        for column, value in (("q.job_type", key.job_type), (Q_LIMIT_KEY, key.limit_key))
        if value
    }
    if key.counted_by == CountedBy.ALL_FIRMS:
        return 0, 0
    return _count_ahead(job, " AND ".join(alike), list(alike.values()), MAX_AHEAD_IN_RATE)


def _breaker_reasons(job: JobQueue) -> Iterator[WaitReason]:
    """Return the breaker that blocks the job, unless the job is its probe."""
    dialect = dialects.current()
    rows = _read(
        f"""
        SELECT b.state, b.probe_at, b.fingerprint, b.probe_job_id, probe.status
        FROM jobs_circuitbreaker b LEFT JOIN jobs_jobqueue probe
          ON probe.job_id = b.probe_job_id AND probe.firm_id = b.firm_id
        WHERE {NOT_CLOSED} AND b.firm_id = %s AND b.job_type = %s AND b.limit_key = %s
          AND (b.probe_job_id IS NULL OR b.probe_job_id <> %s)
        """,
        [job.firm_id, job.job_type, job.limit_key or "", dialect.value(Column.UUID, job.pk)],
    )
    of_key = f" with the limit key {job.limit_key}" if job.limit_key else ""
    breaker = f"circuit breaker of {job.job_type} for firm {job.firm.slug}{of_key}"
    for state, probe_at, fingerprint, probe, status in rows:
        until = None if state == BreakerState.HALF_OPEN else dialect.read_time(probe_at)
        failing = f" (failure {fingerprint})" if fingerprint else ""
        # An end is told after the detail; of a probe there is none.
        then = "" if until else f"; {probe_in_words(dialect.read_uuid(probe), status)}"
        detail = f"{breaker} holds the job back{failing}{then}"
        yield WaitReason(WaitCode.BREAKER, detail, until)


def _lock_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    if not (job.waiting and job.lock_key):
        return
    if job.shares_lock:
        yield from reading(lambda: list(_shared_lock_reasons(job, now)))
        return
    # A project's own code may call this without a scope, because it has the job.
    found = ConcurrencyLock.objects.unscoped("of the job's firm").filter(
        held_at(now), firm_id=job.firm_id, lock_key=job.lock_key
    )
    locks = reading(lambda: list(found.order_by("slot")[: job.lock_limit]))
    ahead, _ = _count_ahead(job, f"{Q_KEY} = %s", [job.lock_key], MAX_AHEAD)
    if len(locks) < job.lock_limit and not ahead:
        return
    before = f"; jobs ahead of it: {_number(ahead, MAX_AHEAD)}" if ahead else ""
    for lock in locks:
        detail = f"lock {job.lock_key} has been held by {_holder(lock, now)}{before}"
        yield WaitReason(WaitCode.LOCKED, detail, lock.expires_at)


def _shared_lock_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    """Return that the shared slots are taken, without other firms' holders and waiting jobs."""
    held = slots_of_all_firms(job.lock_key or "", now)[: job.lock_limit]
    if len(held) < job.lock_limit:
        return
    own = [_holder(lock, now) for lock in held_by_jobs_of(job.firm_id, held)]
    ahead, _ = _count_ahead(job, f"{Q_KEY} = %s", [job.lock_key or ""], MAX_AHEAD)
    by = f"; holders in this firm: {', '.join(own)}" if own else ""
    before = f"; jobs of this firm ahead of it: {_number(ahead, MAX_AHEAD)}" if ahead else ""
    detail = f"lock {job.lock_key} of all firms ({job.lock_limit} at once) is taken{by}{before}"
    yield WaitReason(WaitCode.LOCKED, detail)


def _holder(lock: ConcurrencyLock, now: datetime) -> str:
    held = in_words((now - lock.acquired_at).total_seconds())
    return f"{lock.holder_id.replace(JOB_HOLDER, 'job ', 1)} for {held}"


def _number(ahead: int, most: int) -> str:
    return f"{ahead:,} or more" if ahead == most else f"{ahead:,}"


def _count_ahead(job: JobQueue, alike: str, values: list[str], most: int) -> tuple[int, int]:
    """Count the firm's due jobs like `alike` that wait before this one, and their units."""
    dialect = dialects.current()
    ((ahead, units),) = _read(
        f"""
        SELECT count(*), COALESCE(sum(ahead.limit_units), 0) FROM (
            SELECT q.limit_units FROM jobs_jobqueue q
            WHERE q.waiting AND q.firm_id = %s AND {alike}
              AND q.scheduled_at <= {dialect.now_sql()}
              AND (q.priority, q.scheduled_at, q.job_id) < (%s, %s, %s)
            LIMIT {most}
        ) AS ahead
        """,
        [
            job.firm_id,
            *values,
            job.priority,
            dialect.value(Column.TIME, job.scheduled_at),
            dialect.value(Column.UUID, job.pk),
        ],
    )
    return int(ahead), int(units)


def _worker_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    workers = list(
        Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=now).values_list(
            "categories", "job_types"
        )
    )
    if not workers:
        yield WaitReason(WaitCode.NO_WORKER, "no worker is alive: start manage.py runworker")
        return
    serving = [
        types for categories, types in workers if not categories or job.category in categories
    ]
    if not serving:
        detail = f"no live worker serves the category {job.category}"
        yield WaitReason(WaitCode.NO_WORKER_FOR_CATEGORY, detail)
    elif not any(job.job_type in types for types in serving):
        declared = registry.find(job.job_type)
        detail = f"no live worker knows the type {job.job_type}"
        if declared is not None:
            detail = f"no live worker serves the type {job.job_type} (queue {declared.queue})"
        yield WaitReason(WaitCode.UNKNOWN_TYPE, detail)


def _read(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    return reading(lambda: fetch(sql, params))
