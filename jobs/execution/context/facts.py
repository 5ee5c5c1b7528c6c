"""What a handler can read about its job, and the checkpoint in every call of `ctx`."""

from __future__ import annotations

import time
from functools import cached_property
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.current_job import in_event_loop
from jobs.errors import Cancel, Fatal, JobTimeout, LeaseLost, WrongPlace
from jobs.execution.context.signals import Signals
from tenants.models import Firm


class JobFacts:
    """The running job, as its handler sees it."""

    def __init__(self, claim: Claim, signals: Signals) -> None:
        self._claim = claim
        self._signals = signals
        self._begun = time.monotonic()

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
        self._refuse_in_loop("afirm()")
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
        """The lease token, which grows with every claim; pass it to systems that can refuse an older one."""
        return self._claim.lease_token

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel was requested; for handlers that clean up before they stop."""
        return self._signals.cancel_requested.is_set()

    def _checkpoint(self, twin: str) -> None:
        """Raise in a handler that must stop, or that would block its event loop."""
        self._refuse_in_loop(f"{twin}(…)")
        self._check_lease()
        if self._signals.cancel_requested.is_set():
            raise Cancel("canceled by request")

    def _check_lease(self) -> None:
        if self._signals.lease_lost.is_set():
            raise LeaseLost(f"the worker of job {self.job_id} lost its lease")
        if self._signals.timed_out.is_set():
            # The handler caught the first one.
            raise JobTimeout

    def _refuse_in_loop(self, twin: str) -> None:
        if in_event_loop():
            raise WrongPlace(f"this would block the event loop: use await ctx.{twin}")

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"job {self.job_id} is no longer this attempt's")
