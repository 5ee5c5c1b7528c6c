"""What holds after every scenario, whatever went wrong in it; see `check`.

The numbers are those of the rules they prove: nothing lost, terminal is terminal, attempts
accounted for, the fence, keyed exclusion, nothing stuck, no innocent dead letter.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from jobs.models import Attempt, ConcurrencyLock, DeadLetterQueue, JobQueue
from jobs.states import IN_FLIGHT, LIVE, TERMINAL, AttemptEnd, Status
from tenants.scope import all_firms
from tests.support.history import Transition, transitions
from tests.support.journal import Entry, Journal

# Endings that give the attempt back. A rescue gives it back when the handler had not started.
REFUNDED = frozenset({AttemptEnd.RELEASED, AttemptEnd.SNOOZED})
# What the errors of such endings are where a request to cancel made canceled jobs of them.
REFUNDED_ERRORS = frozenset({"Released", ""})
NOT_STARTED = "NotStarted"
# Its supervisor knew that it was not running: it had not started, or had ended.
NOT_RUNNING = "NotRunning"


class Record(Protocol):
    """What handlers noted of their starts, kept outside the queue."""

    def entries(self) -> list[Entry]:
        """Return what was noted, oldest first."""


@dataclass(frozen=True)
class Evidence:
    """All that is known once a scenario is over."""

    jobs: dict[UUID, JobQueue]
    attempts: dict[UUID, list[Attempt]]
    history: dict[UUID, list[Transition]]
    locks: list[ConcurrencyLock]
    dead: set[UUID]
    journal: list[Entry]


def check(
    accepted: Collection[UUID], journal: Record, *, expected_dead: Collection[UUID] = ()
) -> None:
    """Check every invariant, once all workers have stopped.

    `accepted` are the ids that enqueue has returned; `expected_dead` those that were meant to end
    as dead letters.
    """
    evidence = _collect(journal)
    assert set(evidence.jobs) == set(accepted), "a job was lost, or appeared from nowhere"
    assert evidence.dead == set(expected_dead), "a dead letter that nobody asked for"
    starts = Counter(UUID(entry.job_id) for entry in evidence.journal if entry.what == "start")
    for job_id, job in evidence.jobs.items():
        history = evidence.history[job_id]
        _check_path(history)
        _check_accounts(job, evidence.attempts[job_id], history, starts[job_id])
        _check_rest(job)
    assert not evidence.locks, "a lock outlived its job"


def check_exclusion(journal: Journal, deaths: Mapping[int, float]) -> None:
    """Check that no two handlers of one label ran at once.

    `deaths` says by session when a worker was killed: its handlers without an end ran until then.
    """
    by_label: dict[str, list[tuple[float, float]]] = defaultdict(list)
    ends = {
        (entry.job_id, entry.fence): entry.at for entry in journal.entries() if entry.what == "end"
    }
    for entry in journal.starts():
        cut = deaths.get(entry.session, float("inf"))
        by_label[entry.label].append((entry.at, ends.get((entry.job_id, entry.fence), cut)))
    for label, intervals in by_label.items():
        intervals.sort()
        for (_, ended), (started, _) in itertools.pairwise(intervals):
            assert started >= ended, f"two handlers of {label} at once"


def _collect(journal: Record) -> Evidence:
    history: dict[UUID, list[Transition]] = defaultdict(list)
    for transition in transitions():
        history[transition.job_id].append(transition)
    attempts: dict[UUID, list[Attempt]] = defaultdict(list)
    with all_firms("checking the invariants"):
        for attempt in Attempt.objects.all():
            attempts[attempt.job_id].append(attempt)
        return Evidence(
            # A payload may be one that nobody can read.
            jobs={job.job_id: job for job in JobQueue.objects.defer("payload")},
            attempts=attempts,
            history=history,
            locks=list(ConcurrencyLock.objects.all()),
            dead=set(DeadLetterQueue.objects.values_list("original_job_id", flat=True)),
            journal=journal.entries(),
        )


def _check_path(history: list[Transition]) -> None:
    """Terminal is terminal; a claim takes only pending jobs; each write carries the last token."""
    newest = 0
    for step in history:
        assert step.was not in TERMINAL, f"{step} left a terminal status"
        if step.is_claim:
            assert step.was is Status.PENDING, f"{step} took a job from its holder"
            assert step.new_token > newest, f"{step}: the token did not grow"
            newest = step.new_token
        elif step.was in IN_FLIGHT:
            assert step.old_token == newest, f"{step} was written with an old token"
            # Kept while it runs, negated by settle, nulled by release and rescue.
            assert step.new_token in (newest, -newest, 0), f"{step} made up a token"


def _check_accounts(
    job: JobQueue, attempts: list[Attempt], history: list[Transition], starts: int
) -> None:
    """Every claim is either counted or was given back, with a line in the history that says so."""
    claims = sum(step.is_claim for step in history)
    rescued = [one for one in attempts if one.end == AttemptEnd.RESCUED]
    not_started = [one for one in rescued if one.error_class == NOT_STARTED]
    not_running = [one for one in rescued if one.error_class == NOT_RUNNING]
    innocent = len(not_started) + len(not_running)
    refunds = innocent + sum(_gave_back(one) for one in attempts)
    assert job.attempts == claims - refunds, f"{job}: {claims} claims, {refunds} given back"
    assert job.attempts <= job.max_attempts
    assert job.deaths == len(rescued) - innocent, f"{job}: {job.deaths} deaths"
    assert starts <= claims - len(not_started), f"{job} started more often than it was claimed"


def _gave_back(attempt: Attempt) -> bool:
    """Say whether an attempt that was no rescue's was given back."""
    canceled = attempt.end == AttemptEnd.CANCELED
    return attempt.end in REFUNDED or (canceled and attempt.error_class in REFUNDED_ERRORS)


def _check_rest(job: JobQueue) -> None:
    """Nothing is stuck in flight, and a finished job holds nothing."""
    assert job.status not in IN_FLIGHT, f"{job} is stuck: {job.status}"
    if job.status in LIVE:
        assert job.ready != job.waiting, f"{job} can never be claimed"
        assert job.worker_id is None
    else:
        assert (job.ready, job.waiting, job.live_key) == (False, False, None)
        assert job.completed_at is not None
