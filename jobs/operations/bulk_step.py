"""What the job of a bulk run does: one chunk after the other, at the pace of the run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from interfaces.correlation import correlation
from jobs.engine.clock import database_now
from jobs.engine.lease import JobLease
from jobs.engine.transactions import in_transaction
from jobs.models import BulkMember, BulkRun, JobQueue
from jobs.models.base import FIRST_ID
from jobs.operations.bulk import end_run
from jobs.operations.bulk_chunk import Outcomes, do_chunk
from jobs.states import LIVE, BulkState, MemberState, Status
from tenants.audit import Actor
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope

# Members in a chunk: few enough that a run stops soon and that others can write in between, many
# enough to be quick.
CHUNK = 200
# With a rate, a chunk has as many members as the rate allows in this time.
RATE_SECONDS = 2.0
# A run that fell behind its rate makes up for at most this time.
CATCH_UP_SECONDS = 10.0
CANARY_WAIT_SECONDS = (1.0, 10.0)
LOCKED_WAIT_SECONDS = 1.0
# So many chunks of locked members are passed over in a step.
MOST_LOCKED_CHUNKS = 20


@dataclass(frozen=True)
class Step:
    """The result of a chunk: whether the run is over, else how long to wait before the next one."""

    run: BulkRun | None
    wait_seconds: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to do."""
        return self.run is None or self.run.state != BulkState.RUNNING


def do_step(run_id: UUID, firm: Firm, job_id: UUID, lease_token: int) -> Step:
    """Do the next chunk of the run that this job does, in a transaction of its own.

    Raises:
        LeaseLost: the job no longer carries the lease token; nothing was done.
    """
    return in_transaction(lambda: _step(run_id, firm, job_id, lease_token))


def _step(run_id: UUID, firm: Firm, job_id: UUID, lease_token: int) -> Step:
    with all_firms("a bulk run on every firm") if firm.is_system else firm_scope(firm):
        mine = BulkRun.objects.filter(pk=run_id, firm_id=firm.pk, job_id=job_id)
        run = mine.select_for_update(no_key=True).first()
        if run is None or run.state != BulkState.RUNNING:
            return Step(run)
        JobLease(job_id, firm.pk, lease_token).require()
        user = run.started_by
        account = "" if user else run.started_by_name.removeprefix(f"{run.door}:")
        with correlation(run.correlation_id):
            return _next(run, Actor(run.door, user, account))


def _next(run: BulkRun, actor: Actor) -> Step:
    now = database_now()
    if run.awaits_canary and run.has_canary_out:
        failed, live, tried = _canary(run)
        if failed > run.canary_max_failure_rate * tried:
            return Step(end_run(run, BulkState.CANARY_FAILED, actor))
        if live:
            least, most = CANARY_WAIT_SECONDS
            since = run.last_chunk_at or now
            return Step(run, min(max((now - since).total_seconds() / 10, least), most))
        run.canary_passed_at = now
        run.save(update_fields=["canary_passed_at"])
    if run.handled >= run.total:
        return Step(end_run(run, BulkState.COMPLETED, actor))
    most = CHUNK
    if run.awaits_canary:
        most = min(most, run.canary_size - run.done)
    if run.rate_per_second is not None:
        allowed = _allowance(run, run.rate_per_second, now)
        wanted = min(most, run.total - run.handled, run.rate_per_second * RATE_SECONDS)
        if allowed < max(wanted, 1):
            return Step(run, (max(wanted, 1) - allowed) / run.rate_per_second)
        most = min(most, int(allowed))
    return _chunk(run, most, actor)


def _allowance(run: BulkRun, rate: float, now: datetime) -> float:
    """Return how many members the rate allows now.

    That is the rate times the seconds since `rate_used_until`, which is first moved forward if the
    run is further behind than it may catch up.
    """
    first = timedelta(seconds=max(min(CHUNK / rate, RATE_SECONDS), 1 / rate))
    late = now - max(timedelta(seconds=CATCH_UP_SECONDS), first)
    run.rate_used_until = max(run.rate_used_until or now - first, late)
    return (now - run.rate_used_until).total_seconds() * rate + 1e-6


def _chunk(run: BulkRun, most: int, actor: Actor) -> Step:
    members = BulkMember.objects.filter(run=run, state=MemberState.PENDING).order_by("target_id")
    outcomes = _do_unlocked(run, members, most, actor)
    if not outcomes:
        if members.exists():
            return Step(run, LOCKED_WAIT_SECONDS)
        # The other members went with their firms, which were deleted meanwhile.
        return Step(end_run(run, BulkState.COMPLETED, actor))
    mine = BulkMember.objects.filter(run=run)
    done = [target for target, why in outcomes.items() if not why]
    mine.filter(target_id__in=done).update(state=MemberState.DONE)
    for why in set(outcomes.values()) - {""}:
        refused = [target for target, note in outcomes.items() if note == why]
        mine.filter(target_id__in=refused).update(state=MemberState.REFUSED, note=why[:200])
    run.done += len(done)
    run.refused += len(outcomes) - len(done)
    run.last_chunk_at = database_now()
    if run.rate_per_second is not None and run.rate_used_until is not None:
        run.rate_used_until += timedelta(seconds=len(outcomes) / run.rate_per_second)
    run.save(update_fields=["done", "refused", "last_chunk_at", "rate_used_until"])
    return Step(run)


def _do_unlocked(run: BulkRun, members: QuerySet[BulkMember], most: int, actor: Actor) -> Outcomes:
    """Do the first chunk in which another transaction has not locked every member, if there is one.

    At a slow rate a chunk is a single member, which must not keep the others waiting.
    """
    last = FIRST_ID
    for _ in range(MOST_LOCKED_CHUNKS):
        chunk = list(members.filter(target_id__gt=last)[:most])
        if not chunk:
            break
        if outcomes := do_chunk(run, chunk, actor):
            return outcomes
        last = chunk[-1].target_id
    return {}


def _canary(run: BulkRun) -> tuple[int, int, int]:
    """Return how many of the canary's jobs failed again, are still live, and were tried at all."""
    ids = run.canary_job_ids
    statuses = list(JobQueue.objects.filter(pk__in=ids).values_list("status", flat=True))
    failed = sum(status in (Status.DLQ, Status.FAILED) for status in statuses)
    return failed, sum(status in LIVE for status in statuses), len(ids)
