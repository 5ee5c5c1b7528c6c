"""Hooks around an attempt: context managers that JOB_ATTEMPT_HOOKS names, for monitors and the like.

See docs/operations.md. What a hook raises is logged and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from django.core.signals import setting_changed
from django.dispatch import receiver
from django.utils.module_loading import import_string

from jobs.conf import attempt_hooks
from jobs.engine.claim import Claim
from jobs.engine.outcomes import DeadLettered, Failure, Outcome, Retry, class_path
from jobs.errors import JobTimeout
from jobs.execution.events import OUTCOMES, Event, emit, name_of


@dataclass
class RunningAttempt:
    """An attempt, as its hooks see it; the last three are set when the handler has ended.

    `outcome` is as in the log line of the attempt. `failure` is what is stored of a failed one:
    class, message and traceback, redacted. `error` is what the handler raised, whatever that was;
    its message and the frames of its traceback may hold payload and secrets.
    """

    job_id: UUID
    job_type: str
    category: str
    firm_id: int
    correlation_id: str
    number: int
    is_last: bool
    outcome: str = ""
    failure: Failure | None = None
    error: BaseException | None = None

    def ended(self, outcome: Outcome) -> None:
        """Note how it ended."""
        self.outcome = OUTCOMES[type(outcome)]
        if isinstance(outcome, Retry | DeadLettered):
            self.failure = outcome.failure


Hook = Callable[[RunningAttempt], AbstractContextManager[object]]


def has_hooks() -> bool:
    """Say whether any hook is configured."""
    return bool(_hooks())


@contextmanager
def around_attempt(claim: Claim) -> Iterator[RunningAttempt]:
    """Run the hooks around the attempt."""
    attempt = RunningAttempt(
        claim.job_id,
        claim.job_type,
        claim.category,
        claim.firm_id,
        claim.correlation_id,
        claim.attempts,
        claim.attempts >= claim.max_attempts,
    )
    entered: list[tuple[Hook, AbstractContextManager[object]]] = []
    try:
        for hook in _hooks():
            try:
                manager = hook(attempt)
                manager.__enter__()
                entered.append((hook, manager))
            except JobTimeout:
                # The job's time is up, so its handler must not begin.
                raise
            except BaseException as error:  # noqa: BLE001 - the job runs, and the worker goes on
                _tell(hook, error)
        yield attempt
    finally:
        for hook, manager in reversed(entered):
            try:
                manager.__exit__(None, None, None)
            except BaseException as error:  # noqa: BLE001
                _tell(hook, error)
        # The error's frames would keep the handler's variables alive.
        attempt.error = None


@cache
def _hooks() -> tuple[Hook, ...]:
    return tuple(import_string(path) for path in attempt_hooks())


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting == "JOB_ATTEMPT_HOOKS":
        _hooks.cache_clear()


def _tell(hook: Hook, error: BaseException) -> None:
    emit(
        Event.SUBSCRIBER_FAILED,
        to="attempt",
        subscriber=name_of(hook),
        error_class=class_path(error),
    )
