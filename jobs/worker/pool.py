"""The handlers' threads.

Claims wait in one line. A thread of its own takes chunks out of it for all handlers' threads that
are free: one job where jobs are slow, up to a hundred where they take microseconds, so that short jobs
do not pay for their hand-over one by one. It writes the ids of all of them to the worker's row, in
one statement, before it hands them over. What is left of a chunk behind a job that turns out to be
slow goes back to the line. A suspect is handed over alone and runs in a process of its own; it
leaves the line when that process is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

from django.db import connection

from jobs import registry
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Released, Settlement
from jobs.execution.context import Signals
from jobs.worker.attempts import Attempt, OnThread, Stop
from jobs.worker.batch import Chunk
from jobs.worker.completer import Completer
from jobs.worker.database import Outage
from jobs.worker.eventloop import EventLoop, OnLoop
from jobs.worker.isolation import InProcess, IsolatedProcess
from jobs.worker.prefetch_buffer import Line
from jobs.worker.prefetch_policy import LARGEST_CHUNK, Pace
from jobs.worker.quarantine import Suspects
from jobs.worker.running import RunningHandlers
from jobs.worker.started import Started
from jobs.worker.state import WorkerState
from jobs.worker.threads import Seat, Seats

# Jobs of microseconds hardly wait for anything: more threads would stand in each other's way.
MOST_LARGE_CHUNKS = 4
YIELD_SECONDS = 0.0005
# What a chunk's jobs were thought to take, with much to spare.
STALLED_SECONDS = 0.05


class Pool:
    """Runs claims on a fixed number of threads."""

    def __init__(self, state: WorkerState, size: int) -> None:
        self._state = state
        self._seats = Seats(size)
        self._line = Line()
        self._started = Started(state)
        self._event_loop = EventLoop(state.start_thread)
        self._chunks: set[Chunk] = set()
        self._abandoned = False
        self._pace = Pace()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._to_hand_over = threading.Condition(self._lock)
        self._suspects = Suspects(self._line, self._lock, size, self._note_started)
        self._completer: Completer | None = None
        self.running = RunningHandlers(self._lock, self._changed, self._event_loop)

    def start(self, completer: Completer) -> None:
        """Start the threads; their outcomes go to `completer`."""
        self._completer = completer
        self._seats.start(self._state, self._release)
        self._state.start_thread("starter", self._hand_over)

    def wanted(self) -> int:
        """Return how many more jobs to claim now."""
        with self._lock:
            # Suspects beyond those whose turn it is wait long: they keep no room from the others.
            held = self._line.ordinary + self._suspects.next
            return self._pace.wanted(seats=self._seats.size, free=self._seats.free, held=held)

    @property
    def starts_at_once(self) -> bool:
        """Whether a job that comes alone would start at once."""
        with self._lock:
            return self._seats.free > 0 and not self._line

    def put(self, claims: Sequence[Claim]) -> None:
        """Add claims to the line; one that counts as started has its turn now."""
        with self._lock:
            # It comes alone (`engine.claim`).
            at_once = bool(claims) and claims[0].started and self._seats.free > 0
            if at_once:
                seat, chunk = self._take_chunk(claims)
                seat.give(partial(self._run_chunk, chunk))
            else:
                self._line.extend(claims)
                self._to_hand_over.notify()
        if at_once:
            # Its thread cannot wake while this one goes on to the next claim.
            time.sleep(YIELD_SECONDS)

    def take_back(self) -> list[Claim]:
        """Remove and return the claims whose handlers were not started."""
        with self._lock:
            waiting = self._line.clear()
            for chunk in self._chunks:
                waiting += self._take_rest(chunk)
            self._changed.notify_all()
            return waiting

    def known_tokens(self) -> set[int]:
        """Return the lease tokens of all claims that wait, run, or are not yet settled."""
        with self._lock:
            return {claim.lease_token for claim in (*self._line, *self._started.claims())}

    def abandon(self) -> list[Claim]:
        """Start nothing more, stop what runs; return the started claims that are not settled."""
        with self._lock:
            self._abandoned = True
        self.running.disown()
        return self._started.claims()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        with self._lock:
            return not self._line and not self._seats.busy

    def wait_for_room(self, timeout: float) -> None:
        """Wait until there is something to claim for, or `timeout` seconds."""
        with self._lock:
            self._changed.wait_for(
                lambda: self.wanted() > 0 or self._state.stopping.is_set(), timeout
            )

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing runs; False when `timeout` seconds were not enough.

        Nobody waits for handlers that are stuck: False as soon as only they are left.
        """
        with self._lock:
            self._changed.wait_for(
                lambda: not self._line and self._seats.busy <= self.running.stuck, timeout
            )
            return not self._line and not self._seats.busy

    def put_back_stalled(self) -> None:
        """Put what waits behind a job that is slow, unlike those before it, back into the line."""
        horizon = time.monotonic() - STALLED_SECONDS
        with self._lock:
            for chunk in self._chunks:
                if chunk.begun_at <= horizon:
                    self._line.put_back(self._take_rest(chunk))
            if self._line.ordinary:
                self._to_hand_over.notify()

    def write_down(self, claims: Sequence[Claim]) -> None:
        """Name these in the worker's row too, where they are running now."""
        self._started.write_down(claims)

    def forget(self, claims: Sequence[Claim]) -> None:
        """Drop settled jobs from the list of started ones."""
        self._started.forget(claims)

    def _hand_over(self) -> None:
        """Hand work to the threads that are free, as long as the worker lives."""
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.is_set():
            self._suspects.end_idle_processes()
            with self._lock:
                if not (self._may_take_chunk() or (self._seats.free and self._suspects.may_run)):
                    self._to_hand_over.wait(1.0)
                self._hand_over_suspects()
                taken = self._take_chunks()
            if taken:
                self._start_chunks(taken, outage)
        self._seats.end()
        self._event_loop.stop()
        self._suspects.end()
        connection.close()

    def _release(self, seat: Seat) -> None:
        with self._lock:
            self._seats.release(seat)
            if self._line:
                self._to_hand_over.notify()
            self._changed.notify_all()

    def _may_take_chunk(self) -> bool:
        if not (self._seats.free and self._line.ordinary):
            return False
        if self._pace.chunk_size < LARGEST_CHUNK:
            return True
        horizon = time.monotonic() - STALLED_SECONDS
        running = sum(chunk.begun_at > horizon for chunk in self._chunks)
        return running < MOST_LARGE_CHUNKS

    def _hand_over_suspects(self) -> None:
        while self._seats.free and self._suspects.may_run:
            self._suspects.begin()
            self._seats.take().give(self._run_suspect)

    def _take_chunks(self) -> list[tuple[Seat, Chunk]]:
        taken = []
        while self._may_take_chunk():
            taken.append(self._take_chunk(self._line.take(self._pace.chunk_size)))
        return taken

    def _take_chunk(self, claims: Sequence[Claim]) -> tuple[Seat, Chunk]:
        chunk = Chunk(claims)
        self._started.add(chunk.claims)
        self._chunks.add(chunk)
        return self._seats.take(), chunk

    def _start_chunks(self, taken: Sequence[tuple[Seat, Chunk]], outage: Outage) -> None:
        claims = [claim for _, chunk in taken for claim in chunk.claims]
        if self._started.note(claims, outage):
            for seat, chunk in taken:
                seat.give(partial(self._run_chunk, chunk))
            return
        for seat, chunk in taken:
            self._give_back(chunk.take_rest())
            self._drop(chunk)
            self._release(seat)

    def _run_chunk(self, chunk: Chunk) -> None:
        try:
            while (claim := chunk.next()) is not None:
                self._run_one(claim)
        finally:
            self._drop(chunk)

    def _take_rest(self, chunk: Chunk) -> list[Claim]:
        rest = chunk.take_rest()
        self._started.forget(rest)
        return rest

    def _drop(self, chunk: Chunk) -> None:
        with self._lock:
            self._chunks.discard(chunk)

    def _run_suspect(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        self._suspects.run(
            lambda claim: self._started.note([claim], outage),
            self._run_one,
            self._give_back_because,
        )

    def _note_started(self, claim: Claim) -> None:
        self._started.add([claim])

    def _give_back(self, claims: Sequence[Claim]) -> None:
        """Release claims of a lease that may be over, unless they were rescued already."""
        for claim in claims:
            self._give_back_because(claim, Released("lease lost"))

    def _give_back_because(self, claim: Claim, reason: Released) -> None:
        self._submit([Settlement(claim, reason, None)])

    def _submit(self, settlements: Sequence[Settlement]) -> None:
        if self._completer is None:
            raise RuntimeError("the pool was not started")
        self._completer.submit(settlements)

    def _run_one(self, claim: Claim, process: IsolatedProcess | None = None) -> None:
        if self._abandoned:
            return
        lease = self._state.lease
        if not (lease.covers(claim) and lease.trusted):
            self._give_back([claim])
            return
        attempt = self._attempt(claim, Signals(lease_lost=lease.lost), process)
        running = self.running.add(claim, attempt)
        if lease.lost.is_set() or self._abandoned:
            attempt.stop(Stop.LEASE_LOST)
        try:
            outcome = attempt.run()
        finally:
            self.running.remove(running)
        ended_at = time.monotonic()
        ran = ended_at - running.since
        if process is None:
            self._pace.learn(ran)
        kept = None if isinstance(outcome, Released) else ran
        self._submit([Settlement(claim, outcome, kept, ended_at)])

    def _attempt(self, claim: Claim, signals: Signals, process: IsolatedProcess | None) -> Attempt:
        if process is not None:
            return InProcess(claim, process, self._state.rng)
        declared = registry.find(claim.job_type)
        if declared is not None and declared.is_async:
            return OnLoop(claim, signals, self._state.rng, self._event_loop)
        return OnThread(claim, signals, self._state.rng)
