"""Hands claims to the handlers' threads.

Claims wait in the prefetch buffer. The dispatcher thread takes batches out of it for all idle
threads: one job each where jobs are slow, up to a hundred where they take microseconds. It records
all of them in the worker's row, in one statement, before it hands them over. The rest of a batch
behind a job that turns out to be slow goes back to the buffer. Quarantined jobs go one by one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from django.db import connection

from jobs import registry
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Released, Settlement
from jobs.execution.context import Signals
from jobs.worker.eventloop import EventLoop, EventLoopRunner
from jobs.worker.isolation import IsolatedProcess, ProcessRunner
from jobs.worker.prefetch import LARGEST_BATCH, PrefetchBuffer, PrefetchPolicy
from jobs.worker.quarantine import Quarantine
from jobs.worker.running import RunningHandlers, StartedClaims
from jobs.worker.state import SharedState
from jobs.worker.threads import Batch, Runner, StopReason, ThreadRunner, WorkerThread, WorkerThreads

# Jobs of microseconds hardly wait for anything: more threads would only compete.
MOST_LARGE_BATCHES = 4
YIELD_SECONDS = 0.0005
# Far longer than a job of a batch was expected to take.
STALLED_SECONDS = 0.05


class Pool:
    """Runs claims on `size` threads and passes their outcomes to `submit`."""

    def __init__(
        self,
        state: SharedState,
        size: int,
        started: StartedClaims,
        submit: Callable[[Sequence[Settlement]], None],
    ) -> None:
        self._state = state
        self._submit = submit
        self._started = started
        self._buffer = PrefetchBuffer()
        self._policy = PrefetchPolicy()
        self._threads = WorkerThreads(size)
        self._event_loop = EventLoop(state.start_thread)
        self._abandoned = False
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._work_available = threading.Condition(self._lock)
        self._quarantine = Quarantine(self._buffer, started, self._lock, size)
        self.running = RunningHandlers(self._lock, self._changed, self._event_loop)

    def start(self) -> None:
        """Start the threads."""
        self._threads.start(self._state, self._release_thread)
        self._state.start_thread("dispatcher", self._dispatch)

    def wanted(self) -> int:
        """Return how many more jobs to claim now."""
        with self._lock:
            # Quarantined claims that wait for long take no room from others.
            buffered = self._buffer.ordinary + self._quarantine.next
            threads = self._threads
            return self._policy.wanted(threads=threads.size, free=threads.free, buffered=buffered)

    @property
    def starts_at_once(self) -> bool:
        """Whether a job that is claimed alone would start at once."""
        with self._lock:
            return self._threads.free > 0 and not self._buffer

    def add(self, claims: Sequence[Claim]) -> None:
        """Buffer claims; one that is claimed as started goes to its thread at once."""
        with self._lock:
            # Such a claim comes alone.
            at_once = bool(claims) and claims[0].started and self._threads.free > 0
            if at_once:
                thread, batch = self._take_thread(claims)
                thread.run(partial(self._run_batch, batch))
            else:
                self._buffer.extend(claims)
                self._work_available.notify()
        if at_once:
            # Lets the thread run: this one would go on to the next claim.
            time.sleep(YIELD_SECONDS)

    def take_unstarted(self) -> list[Claim]:
        """Remove and return the claims whose handlers have not started."""
        with self._lock:
            claims = self._buffer.clear()
            for batch in self._threads.batches:
                claims += self._take_rest(batch)
            self._changed.notify_all()
            return claims

    def known_tokens(self) -> set[int]:
        """Return the lease tokens of all claims that are buffered or started and not settled."""
        with self._lock:
            return {claim.lease_token for claim in (*self._buffer, *self._started.all())}

    def abandon(self) -> list[Claim]:
        """Start nothing more, stop all handlers; return the started claims not yet settled."""
        with self._lock:
            self._abandoned = True
        self.running.stop_all()
        return self._started.all()

    @property
    def idle(self) -> bool:
        """Whether nothing is buffered and nothing runs."""
        with self._lock:
            return not self._buffer and not self._threads.busy

    def wait_for_room(self, timeout: float) -> None:
        """Wait until more jobs are wanted, at most `timeout` seconds."""
        with self._lock:
            self._changed.wait_for(
                lambda: self.wanted() > 0 or self._state.stopping.is_set(), timeout
            )

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing runs; False if `timeout` seconds were not enough.

        Returns False early when only stuck handlers are left.
        """
        with self._lock:
            self._changed.wait_for(
                lambda: not self._buffer and self._threads.busy <= self.running.stuck, timeout
            )
            return not self._buffer and not self._threads.busy

    def rebuffer_stalled(self) -> None:
        """Put what waits in a batch behind an unexpectedly slow job back into the buffer."""
        horizon = time.monotonic() - STALLED_SECONDS
        with self._lock:
            for batch in self._threads.batches:
                if batch.job_began_at <= horizon:
                    self._buffer.put_back(self._take_rest(batch))
            if self._buffer.ordinary:
                self._work_available.notify()

    def _dispatch(self) -> None:
        """Hand work to idle threads, as long as the worker lives."""
        while not self._state.halt.is_set():
            self._quarantine.end_idle_processes()
            with self._lock:
                if not (self._may_take_batch() or self._may_run_quarantined()):
                    self._work_available.wait(1.0)
                while self._may_run_quarantined():
                    self._quarantine.begin()
                    self._threads.take().run(self._run_quarantined)
                taken = []
                while self._may_take_batch():
                    claims = self._buffer.take(self._policy.batch_size)
                    taken.append(self._take_thread(claims))
            if taken:
                self._start_batches(taken)
        self._threads.end()
        self._event_loop.stop()
        self._quarantine.end()
        connection.close()

    def _may_run_quarantined(self) -> bool:
        return self._threads.free > 0 and self._quarantine.may_run

    def _may_take_batch(self) -> bool:
        if not (self._threads.free and self._buffer.ordinary):
            return False
        if self._policy.batch_size < LARGEST_BATCH:
            return True
        horizon = time.monotonic() - STALLED_SECONDS
        running = sum(batch.job_began_at > horizon for batch in self._threads.batches)
        return running < MOST_LARGE_BATCHES

    def _take_thread(self, claims: Sequence[Claim]) -> tuple[WorkerThread, Batch]:
        batch = Batch(claims)
        self._started.add(claims)
        return self._threads.take(batch), batch

    def _release_thread(self, thread: WorkerThread) -> None:
        with self._lock:
            self._threads.release(thread)
            if self._buffer:
                self._work_available.notify()
            self._changed.notify_all()

    def _take_rest(self, batch: Batch) -> list[Claim]:
        rest = batch.take_rest()
        self._started.remove(rest)
        return rest

    def _start_batches(self, taken: Sequence[tuple[WorkerThread, Batch]]) -> None:
        claims = [claim for _, batch in taken for claim in batch.claims]
        recorded = self._started.record_before_start(claims)
        for thread, batch in taken:
            if recorded:
                thread.run(partial(self._run_batch, batch))
            else:
                self._release_claims(batch.take_rest())
                self._release_thread(thread)

    def _run_batch(self, batch: Batch) -> None:
        while (claim := batch.next()) is not None:
            self._run_one(claim)

    def _run_quarantined(self) -> None:
        self._quarantine.run(self._run_one, self._release_claim)

    def _run_one(self, claim: Claim, process: IsolatedProcess | None = None) -> None:
        if self._abandoned:
            return
        lease = self._state.lease
        if not (lease.covers(claim) and lease.trusted):
            self._release_claims([claim])
            return
        runner = self._runner(claim, Signals(lease_lost=lease.lost), process)
        running = self.running.add(claim, runner)
        if lease.lost.is_set() or self._abandoned:
            runner.stop(StopReason.LEASE_LOST)
        try:
            self._state.slots.begin(claim.lease_token, running.deadline)
            outcome = runner.run()
        finally:
            self._state.slots.end()
            self.running.remove(running)
        ended_at = time.monotonic()
        run_seconds = ended_at - running.started_at
        if process is None:
            self._policy.observe(run_seconds)
        counted = None if isinstance(outcome, Released) else run_seconds
        self._submit([Settlement(claim, outcome, counted, ended_at)])

    def _runner(self, claim: Claim, signals: Signals, process: IsolatedProcess | None) -> Runner:
        if process is not None:
            return ProcessRunner(claim, process, self._state.rng)
        declared = registry.find(claim.job_type)
        if declared is not None and declared.is_async:
            return EventLoopRunner(claim, signals, self._state.rng, self._event_loop)
        return ThreadRunner(claim, signals, self._state.rng)

    def _release_claims(self, claims: Sequence[Claim]) -> None:
        """Release claims of a lease that may be lost; those already rescued are left alone."""
        for claim in claims:
            self._release_claim(claim, Released("lease lost"))

    def _release_claim(self, claim: Claim, reason: Released) -> None:
        self._submit([Settlement(claim, reason, None)])
