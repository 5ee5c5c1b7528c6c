"""Runs claims: calls the handler by the kind of runner that its type needs; returns its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from jobs import registry
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Completed, Released, Settlement
from jobs.execution.context import Signals
from jobs.execution.executor import is_watched
from jobs.worker.eventloop import EventLoop, EventLoopRunner
from jobs.worker.isolation import IsolatedProcess, ProcessRunner
from jobs.worker.prefetch import is_last_attempt
from jobs.worker.running import RunningHandlers
from jobs.worker.state import SharedState
from jobs.worker.threads import Batch, Runner, StopReason, ThreadRunner

EXPIRED = Released("expired before it began")
LEASE_LOST = Released("lease lost")


# Jobs count as equally short if their run times differ by less than this factor.
SIMILAR = 2.0
# Outcomes of short jobs are handed over together, once in this time.
COLLECT_SECONDS = 0.01


class ClaimRunner:
    """Runs claims on the calling thread.

    `observe` gets the type, run time and end of each handler of this process, `release` the claims that
    must not begin.
    """

    def __init__(
        self,
        state: SharedState,
        running: RunningHandlers,
        event_loop: EventLoop,
        observe: Callable[[str, float, float], None],
        release: Callable[[Sequence[Claim], Released], None],
    ) -> None:
        self._state = state
        self._running = running
        self._event_loop = event_loop
        self._observe = observe
        self._release = release
        self._abandoned = False
        # What `is_watched()` returned for the last batch.
        self._watched: bool | None = None

    def abandon(self) -> None:
        """Start nothing from now on."""
        self._abandoned = True

    def run_batch(self, batch: Batch, submit: Callable[[Sequence[Settlement]], None]) -> None:
        """Run the claims of a batch in order; pass their outcomes to `submit`."""
        self._watched = is_watched()
        # Batches of such short jobs run one at a time, because their jobs do not wait for anything.
        if batch.most < SIMILAR and len(batch.claims) > 1:
            with self._state.turns.running_batch():
                self._run_claims(batch, submit)
        else:
            self._run_claims(batch, submit)
        submit(batch.take_outcomes())

    def _run_claims(self, batch: Batch, submit: Callable[[Sequence[Settlement]], None]) -> None:
        handed_over_at = time.monotonic()
        while (claim := batch.next()) is not None:
            settlement = self.run(claim)
            if settlement is None:
                continue
            batch.outcomes.append(settlement)
            ended_at = settlement.ended_at or 0.0
            if ended_at - handed_over_at > COLLECT_SECONDS or is_urgent(settlement):
                handed_over_at = ended_at
                with self._state.turns.interrupted():
                    submit(batch.take_outcomes())

    def run(self, claim: Claim, process: IsolatedProcess | None = None) -> Settlement | None:
        """Run the handler; return None if it was not started, and its claim was released."""
        lease = self._state.lease
        began_at = time.monotonic()
        if not lease.covers(claim) or not lease.trusted_at(began_at):
            self._release([claim], LEASE_LOST)
            return None
        if claim.has_expired(began_at):
            self._release([claim], EXPIRED)
            return None
        runner = self._runner_of(claim, Signals(lease.lost), process, began_at)
        self._running.add(runner)
        if self._abandoned:
            self._running.remove(runner)
            self._release([claim], LEASE_LOST)
            return None
        if lease.lost.is_set():
            runner.stop(StopReason.LEASE_LOST)
        self._state.slots.begin(claim.lease_token, runner.deadline)
        try:
            outcome = runner.run()
        finally:
            self._state.slots.end()
            self._running.remove(runner)
        ended_at = time.monotonic()
        seconds = ended_at - began_at
        if process is None:
            self._observe(claim.job_type, seconds, ended_at)
        return Settlement(claim, outcome, None if type(outcome) is Released else seconds, ended_at)

    def _runner_of(
        self, claim: Claim, signals: Signals, process: IsolatedProcess | None, began_at: float
    ) -> Runner:
        rng, declared = self._state.rng, registry.find(claim.job_type)
        runner: Runner
        if process is not None:
            runner = ProcessRunner(claim, process, rng)
        elif declared is not None and declared.is_async:
            runner = EventLoopRunner(claim, signals, rng, self._event_loop)
        else:
            runner = ThreadRunner(claim, signals, rng)
        runner.started_at = began_at
        runner.watched = self._watched
        if declared is not None:
            runner.deadline = began_at + declared.timeout_seconds
        return runner


def is_urgent(settlement: Settlement) -> bool:
    """Say whether others may wait for what the job held, or the job must not be tried again."""
    claim = settlement.claim
    return (
        claim.lock_key is not None
        or claim.admitted
        or type(settlement.outcome) is not Completed
        or is_last_attempt(claim)
    )
