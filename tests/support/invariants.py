"""What must hold after every scenario, whatever went wrong in it; see `check`.

The rules: no job is lost, terminal statuses are final, attempts are accounted for, tokens fence off
old holders, keys exclude, nothing stays in flight, and no innocent job is dead-lettered.
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

# These endings give the attempt back. A rescue gives it back if the handler had not started.
REFUNDED = frozenset({AttemptEnd.RELEASED, AttemptEnd.SNOOZED})
# The error classes of such endings if a request to cancel turned them into canceled jobs.
REFUNDED_ERRORS = frozenset({"Released", ""})
NOT_STARTED = "NotStarted"
# The supervisor knew that the job was not running: it had not started, or had ended.
NOT_RUNNING = "NotRunning"


class Record(Protocol):
    """A record of the starts of handlers, kept outside the queue."""

    def entries(self) -> list[Entry]:
        """Return the entries, oldest first."""


@dataclass(frozen=True)
class Evidence:
    """What is known when a scenario is over."""

    jobs: dict[UUID, JobQueue]
    attempts: dict[UUID, list[Attempt]]
    history: dict[UUID, list[Transition]]
    locks: list[ConcurrencyLock]
    dead: set[UUID]
    journal: list[Entry]


def check(
    accepted: Collection[UUID], journal: Record, *, expected_dead: Collection[UUID] = ()
) -> None:
    """Check every invariant; all workers must have stopped.

    `accepted` are the ids that enqueue has returned; `expected_dead` those of jobs that should end
    as dead letters.
    """
    evidence = _collect(journal)
    assert set(evidence.jobs) == set(accepted), "a job was lost, or appeared from nowhere"
    assert evidence.dead == set(expected_dead), "other dead letters than expected"
    starts = Counter(UUID(entry.job_id) for entry in evidence.journal if entry.what == "start")
    for job_id, job in evidence.jobs.items():
        history = evidence.history[job_id]
        _check_path(history)
        _check_accounts(job, evidence.attempts[job_id], history, starts[job_id])
        _check_rest(job)
    assert not evidence.locks, "a lock outlived its job"


def check_exclusion(journal: Journal, deaths: Mapping[int, float]) -> None:
    """Check that no two handlers with the same label ran at once.

    `deaths` has the time at which a worker was killed, by session: handlers without an end ran
    until then.
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
            assert started >= ended, f"two handlers of {label} overlap"


def _collect(journal: Record) -> Evidence:
    history: dict[UUID, list[Transition]] = defaultdict(list)
    for transition in transitions():
        history[transition.job_id].append(transition)
    attempts: dict[UUID, list[Attempt]] = defaultdict(list)
    with all_firms("checking the invariants"):
        for attempt in Attempt.objects.all():
            attempts[attempt.job_id].append(attempt)
        return Evidence(
            # The payload is not loaded, because it may be unreadable.
            jobs={job.job_id: job for job in JobQueue.objects.defer("payload")},
            attempts=attempts,
            history=history,
            locks=list(ConcurrencyLock.objects.all()),
            dead=set(DeadLetterQueue.objects.values_list("original_job_id", flat=True)),
            journal=journal.entries(),
        )


def _check_path(history: list[Transition]) -> None:
    """Check that terminal is terminal, claims take pending jobs, and writes have the last token."""
    newest = 0
    for step in history:
        assert step.was not in TERMINAL, f"{step} left a terminal status"
        if step.is_claim:
            assert step.was is Status.PENDING, f"{step} took a job from its holder"
            assert step.new_token > newest, f"{step}: the token did not grow"
            newest = step.new_token
        elif step.was in IN_FLIGHT:
            assert step.old_token == newest, f"{step} was written with an old token"
            # The token stays while the job runs; settling negates it, release and rescue set it to
            # zero.
            assert step.new_token in (newest, -newest, 0), f"{step} made up a token"


def _check_accounts(
    job: JobQueue, attempts: list[Attempt], history: list[Transition], starts: int
) -> None:
    """Check that every claim counts as an attempt, or was given back by an entry of the history."""
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
    """Say whether an attempt was given back, other than by a rescue."""
    canceled = attempt.end == AttemptEnd.CANCELED
    return attempt.end in REFUNDED or (canceled and attempt.error_class in REFUNDED_ERRORS)


def _check_rest(job: JobQueue) -> None:
    """Check that no job is still in flight, and that an ended one holds nothing."""
    assert job.status not in IN_FLIGHT, f"{job} is stuck: {job.status}"
    if job.status in LIVE:
        assert job.ready != job.waiting, f"{job} can never be claimed"
        assert job.worker_id is None
    else:
        assert (job.ready, job.waiting, job.live_key) == (False, False, None)
        assert job.completed_at is not None
