"""The operations of workers and of maintenance, by their names in the table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from jobs.conf import lease_seconds
from jobs.engine.clock import database_now
from jobs.engine.lease import mark_processing, note_running
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from jobs.engine.prune import expire
from jobs.engine.release import release
from jobs.engine.rescue import rescue
from jobs.states import DeadReason
from tests.jobs.lifecycle.subject import Subject
from tests.queue_kit import FAILURE, change, finish, later, take

WorkerOperation = Callable[[Subject], object]


def _settle(outcome: Outcome) -> WorkerOperation:
    return lambda subject: finish(subject.claim, outcome)


def _release_canceled(subject: Subject) -> None:
    change(subject.job_id, cancel_requested_at=database_now())
    release([subject.claim], "shutdown")


def _rescue(subject: Subject) -> None:
    note_running(subject.claim.worker_id, subject.job_id.bytes)
    with later(lease_seconds() + 1):
        rescue(Random(1))


def _rescue_exhausted(subject: Subject) -> None:
    change(subject.job_id, max_attempts=1)
    _rescue(subject)


def _rescue_shrugged(subject: Subject) -> None:
    change(subject.job_id, job_type="test.shrug")
    _rescue_exhausted(subject)


def _rescue_canceled(subject: Subject) -> None:
    change(subject.job_id, cancel_requested_at=database_now())
    _rescue(subject)


def _expire(subject: Subject) -> None:
    change(subject.job_id, expires_at=database_now() - timedelta(seconds=1))
    expire()


WORKER_OPERATIONS: dict[str, WorkerOperation] = {
    "claim": lambda subject: take(),
    "start": lambda subject: mark_processing([subject.claim]),
    "complete": _settle(Completed({})),
    "retry_later": _settle(Retry(60, FAILURE)),
    "snooze": _settle(Snoozed(delay_seconds=60)),
    "give_up": _settle(DeadLettered(DeadReason.FATAL, FAILURE)),
    "fail": _settle(DeadLettered(DeadReason.FATAL, FAILURE, to_review=False)),
    "stop": _settle(Canceled("enough")),
    "hand_back": _settle(Released("not mine")),
    "release": lambda subject: release([subject.claim], "shutdown"),
    "release_canceled": _release_canceled,
    "rescue": _rescue,
    "rescue_exhausted": _rescue_exhausted,
    "rescue_shrugged": _rescue_shrugged,
    "rescue_canceled": _rescue_canceled,
    "expire": _expire,
}
