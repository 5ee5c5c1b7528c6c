"""Hands claims to the handlers' threads.

Claims wait in the prefetch buffer. The dispatcher thread takes batches out of it for idle threads:
one job each where jobs are slow, up to five hundred where they take microseconds. It records all of
them in the worker's row, in one statement, before it hands them over. If a job of a batch turns out
to be slow, the rest of the batch goes back to the buffer. Quarantined jobs go one by one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from django.db import connection

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Released, Settlement
from jobs.worker.claim_runner import LEASE_LOST, SIMILAR, ClaimRunner
from jobs.worker.eventloop import EventLoop
from jobs.worker.prefetch import PrefetchBuffer, PrefetchPolicy
from jobs.worker.quarantine import Quarantine
from jobs.worker.running import RunningHandlers, StartNotes
from jobs.worker.state import SharedState
from jobs.worker.threads import Batch, Runner, WorkerThread, WorkerThreads

YIELD_SECONDS = 0.0005
# Far longer than a job of a batch was expected to take.
STALLED_SECONDS = 0.05


class Pool:
    """Runs claims on `size` threads and passes their outcomes to `submit`.

    `unsettled` returns those of some claims whose outcomes are not stored; `on_idle` is called when
    nothing is buffered or runs any more, `on_room` when another quarantined claim may have room.
    `given_back` counts the claims that did not run here.
    """

    def __init__(
        self,
        state: SharedState,
        size: int,
        submit: Callable[[Sequence[Settlement]], None],
        unsettled: Callable[[Sequence[Claim]], list[Claim]],
        on_idle: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        self._state = state
        self._submit = submit
        self._on_idle = on_idle
        self._notes = StartNotes(state, unsettled)
        self._buffer = PrefetchBuffer()
        self._policy = PrefetchPolicy()
        self._threads = WorkerThreads(size)
        self._event_loop = EventLoop(state.start_thread)
        self._lock = threading.RLock()
        self.given_back = 0
        self._changed = threading.Condition(self._lock)
        self._work_available = threading.Condition(self._lock)
        self._quarantine = Quarantine(self._buffer, self._notes, self._lock, size, on_room)
        self.running = RunningHandlers(self._lock, self._changed, self._event_loop)
        self._runner = ClaimRunner(
            state, self.running, self._event_loop, self._policy.observe, self._release_claims
        )

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
            return self._policy.wanted(
                time.monotonic(), threads=threads.size, free=threads.free, buffered=buffered
            )

    @property
    def ready_threads(self) -> int:
        """How many jobs would start at once, if they were claimed one by one."""
        with self._lock:
            return 0 if self._buffer else self._threads.free

    @property
    def has_room_for_quarantined(self) -> bool:
        """Whether a quarantined job, if claimed now, would run as soon as there is a process."""
        with self._lock:
            return self._quarantine.has_room

    def add(self, claims: Sequence[Claim]) -> None:
        """Buffer claims; one that is claimed as started goes to its thread at once."""
        if not claims:
            return
        self._policy.observe_payloads(claims)
        if claims[0].started:
            self._notes.look_up_owners(claims)
        with self._lock:
            # A claim that counts as started comes alone.
            at_once = claims[0].started and self._threads.free > 0
            if at_once:
                thread, batch = self._take_thread(claims)
                thread.run(partial(self._runner.run_batch, batch, self._submit))
            else:
                self._buffer.extend(claims)
                self._work_available.notify()
        if at_once:
            # Lets the handler's thread run; otherwise this thread would go on to the next claim.
            time.sleep(YIELD_SECONDS)

    def take_unstarted(self) -> list[Claim]:
        """Remove and return the claims whose handlers have not started."""
        with self._lock:
            claims = self._buffer.clear()
            for batch in self._threads.batches:
                claims += batch.take_rest()
            self._changed.notify_all()
            return claims

    def take_overdue(self) -> list[Claim]:
        """Remove and return the claims that have waited here for too long, or will."""
        now = time.monotonic()
        with self._lock:
            kept = self._quarantine.preparing
            overdue = self._buffer.take_overdue(self._policy, now, self._threads.size, kept)
            self.given_back += len(overdue)
        if overdue:
            self._policy.pause(now)
        return overdue

    def known_tokens(self) -> set[int]:
        """Return the lease tokens of all claims that are buffered or in a batch."""
        with self._lock:
            return {claim.lease_token for claim in (*self._buffer, *self._notes.claims)}

    def abandon(self) -> list[Runner]:
        """Start nothing more, stop all handlers; return those that run."""
        self._runner.abandon()
        self.running.stop_all()
        self.hand_over_outcomes()
        return self.running.all()

    @property
    def idle(self) -> bool:
        """Whether nothing is buffered and nothing runs."""
        with self._lock:
            return not self._buffer and not self._threads.busy

    def wait_for_room(self, timeout: float) -> None:
        """Wait until more jobs are wanted, at most `timeout` seconds."""
        stopping = self._state.stopping.is_set
        with self._lock:
            self._changed.wait_for(lambda: self.wanted() > 0 or stopping(), timeout)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing runs; False if `timeout` seconds were not enough.

        Returns False early when only stuck handlers are left.
        """
        with self._lock:
            self._changed.wait_for(
                lambda: not self._buffer and self._threads.busy <= self.running.stuck, timeout
            )
            return not self._buffer and not self._threads.busy

    @property
    def buffered(self) -> bool:
        """Whether claims wait for a thread, or in the batch of one."""
        with self._lock:
            return bool(self._buffer) or any(batch.has_rest for batch in self._threads.batches)

    def rebuffer_stalled(self) -> None:
        """Put what waits in a batch behind an unexpectedly slow job back into the buffer."""
        now = time.monotonic()
        with self._lock:
            batches, before = self._threads.batches, now - STALLED_SECONDS
            stalled = [one for one in batches if one.job_began_at <= before]
            for batch in stalled:
                self._buffer.put_back(batch.take_rest())
            for one in self.running.all() if stalled else ():
                self._policy.observe_running(one.claim.job_type, one.started_at, now)
            if self._buffer.ordinary:
                self._work_available.notify()
        for batch in stalled:
            self._submit(batch.take_outcomes())

    def record_started(self) -> None:
        """Write the note of the started jobs to the worker's row.

        Raises:
            DatabaseError: it may have been written or not.
        """
        self._notes.write(self._state.worker_id)

    def hand_over_outcomes(self) -> None:
        """Submit what the threads have collected so far."""
        with self._lock:
            batches = self._threads.batches
        for batch in batches:
            self._submit(batch.take_outcomes())

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
                    claims = self._buffer.take_batch(self._policy, self._threads.free)
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
        # One batch more than may run, because it is recorded while the others run.
        most = self._policy.most_threads(self._buffer.first)
        return self._active_batches(most, inf) <= most

    def _active_batches(self, most: float, until: float) -> int:
        """Return how many unstalled batches of jobs as short began before `until` (monotonic).

        Longer jobs do not count, because they wait for something else than the interpreter.
        """
        horizon = time.monotonic() - STALLED_SECONDS
        return sum(
            batch.most <= SIMILAR * most and horizon < batch.job_began_at <= until
            for batch in self._threads.batches
        )

    def _take_thread(self, claims: Sequence[Claim]) -> tuple[WorkerThread, Batch]:
        batch = Batch(claims, self._policy.most_threads(claims[0]))
        self._notes.add(batch)
        return self._threads.take(batch), batch

    def _release_thread(self, thread: WorkerThread) -> None:
        with self._lock:
            if thread.batch is not None:
                self._notes.remove(thread.batch)
            self._threads.release(thread)
            self._work_available.notify()
            self._changed.notify_all()
            is_idle = self.idle
        if is_idle:
            self._on_idle()

    def _start_batches(self, taken: Sequence[tuple[WorkerThread, Batch]]) -> None:
        claims = [claim for _, batch in taken for claim in batch.claims]
        with self._state.turns.working():
            recorded = self._notes.record_before_start(claims)
        for thread, batch in taken:
            if recorded:
                self._wait_to_start(batch)
                thread.run(partial(self._runner.run_batch, batch, self._submit))
            else:
                self._release_claims(batch.take_rest(), LEASE_LOST)
                self._release_thread(thread)

    def _wait_to_start(self, batch: Batch) -> None:
        """Wait until so few batches run that this one may start; not if they stall."""
        with self._lock:
            # Other threads may take the batch's claims away in the meantime.
            while batch.claims and not self._state.halt.is_set():
                if self._active_batches(batch.most, time.monotonic()) < batch.most:
                    return
                self._work_available.wait(STALLED_SECONDS)

    def _run_quarantined(self) -> None:
        self._quarantine.run(
            lambda claim, process: self._submit_one(self._runner.run(claim, process)),
            lambda claim, reason: self._release_claims([claim], reason),
        )

    def _release_claims(self, claims: Sequence[Claim], reason: Released) -> None:
        """Release claims; those that were rescued in the meantime are left alone."""
        with self._lock:
            self.given_back += len(claims)
        self._submit([Settlement(claim, reason, None) for claim in claims])

    def _submit_one(self, settlement: Settlement | None) -> None:
        if settlement is not None:
            self._submit([settlement])
