"""What a handler gets beside its payload: `ctx`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event
from typing import Any, TypeVar
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.lease import still_held
from jobs.engine.steps import find_step, save_progress, save_step
from jobs.enqueue import EnqueueResult, EnqueueSpec, enqueue, enqueue_many
from jobs.errors import Cancel, Fatal, LeaseLost
from tenants.models import Firm

T = TypeVar("T")


@dataclass(frozen=True)
class Signals:
    """How the worker reaches a running handler."""

    lease_lost: Event = field(default_factory=Event)
    cancel_requested: Event = field(default_factory=Event)


class JobContext:
    """The running job's view of the queue.

    Every call is a checkpoint: it raises LeaseLost when the job is no longer this worker's, and
    Cancel when somebody asked the job to stop.
    """

    def __init__(self, claim: Claim, signals: Signals) -> None:
        self._claim = claim
        self._signals = signals

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return self._claim.job_id

    @property
    def firm_id(self) -> int:
        """The id of the job's firm."""
        return self._claim.firm_id

    @cached_property
    def firm(self) -> Firm:
        """The job's firm; Fatal when it is gone."""
        firm = Firm.objects.filter(pk=self._claim.firm_id).first()
        if firm is None:
            raise Fatal(f"firm {self._claim.firm_id} is gone")
        return firm

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now ends the job."""
        return self._claim.attempts >= self._claim.max_attempts

    @property
    def correlation_id(self) -> str:
        """The id this job shares with what caused it and what it causes."""
        return self._claim.correlation_id

    @property
    def fence(self) -> int:
        """The lease token: grows with every claim. Hand it to whatever can refuse an older one."""
        return self._claim.lease_token

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked the job to stop; for handlers that want to tidy up first."""
        return self._signals.cancel_requested.is_set()

    def heartbeat(self) -> None:
        """Make sure the job is still this worker's.

        Raises:
            LeaseLost: it is not; stop working.
        """
        self._check()
        if not still_held(self._claim):
            raise LeaseLost(f"job {self.job_id} belongs to another worker now")

    def progress(self, fraction: float, note: str = "") -> None:
        """Show how far the job got: `fraction` from 0 to 1, `note` at most 200 characters.

        Raises:
            ValueError: `fraction` is out of range.
            LeaseLost: the job is no longer this worker's.
        """
        self._check()
        if not 0 <= fraction <= 1:
            raise ValueError("fraction must be from 0 to 1")
        if not save_progress(self._claim, fraction, note[:200]):
            raise LeaseLost(f"job {self.job_id} belongs to another worker now")

    def step(self, name: str, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` once in the job's life and return its result, stored as JSON.

        On a retry the stored result comes back without a call. A crash between the call and the
        store repeats the call: make it idempotent, or write in the same database.

        Raises:
            LeaseLost: the job is no longer this worker's; the result was not stored.
        """
        self._check()
        stored = find_step(self._claim, name)
        if stored is not None:
            result: T = stored[0]
            return result
        result = function(*args)
        if not save_step(self._claim, name, result):
            raise LeaseLost(f"job {self.job_id} belongs to another worker now")
        return result

    def enqueue(
        self, job_type: str, payload: Mapping[str, Any] | None = None, **options: Any
    ) -> EnqueueResult:
        """Enqueue a child of this job, for its firm; options as in `jobs.queue.enqueue`."""
        self._check()
        return enqueue(job_type, payload, firm=self.firm_id, **options)

    def enqueue_many(self, specs: Sequence[EnqueueSpec]) -> list[EnqueueResult]:
        """Enqueue children of this job, for its firm."""
        self._check()
        return enqueue_many(specs, firm=self.firm_id)

    def _check(self) -> None:
        if self._signals.lease_lost.is_set():
            raise LeaseLost(f"the worker of job {self.job_id} lost its lease")
        if self._signals.cancel_requested.is_set():
            raise Cancel("canceled by request")
