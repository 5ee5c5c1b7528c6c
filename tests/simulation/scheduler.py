"""Decides which virtual thread runs next, and at which virtual time.

A virtual thread is a greenlet. It runs until it sleeps or waits; then the thread with the earliest
time runs, and of several with the same time the one that the seed picks. Running takes no time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import greenlet


class Crashed(BaseException):
    """Ends a thread whose process is gone, or whose run is over."""


class Restless(Exception):
    """The actors go on for ever without any time passing."""


# Far more steps than any run has, so that a loop without end is noticed.
MOST_STEPS = 200_000


@dataclass(eq=False)
class Process:
    """A process, which lives, freezes and dies as a whole, and has a clock of its own.

    `rate` is how fast that clock runs, `epoch` what it shows at the beginning. A process with a
    `parent` dies with it.
    """

    name: str
    rate: float = 1.0
    epoch: float = 0.0
    parent: Process | None = None
    dead: bool = False
    frozen_until: float = 0.0

    @property
    def gone(self) -> bool:
        """Whether no thread of the process runs any more."""
        return self.dead or (self.parent is not None and self.parent.gone)


class Actor:
    """A virtual thread."""

    def __init__(self, number: int, process: Process, name: str, work: Callable[[], None]) -> None:
        self.number = number
        self.process = process
        self.name = name
        # This error is raised in the actor when it goes on.
        self.interrupt: type[BaseException] | None = None
        # Only the entry of the line with this number counts; a wake-up makes older ones void.
        self.turn = 0
        self.greenlet = greenlet.greenlet(work)

    def __str__(self) -> str:
        return f"{self.process.name}/{self.name}"


class Scheduler:
    """Runs actors one at a time, in the order of their times."""

    def __init__(self, rng: Random) -> None:
        self.now = 0.0
        self.steps = 0
        self.closing = False
        self.current: Actor | None = None
        self._rng = rng
        # Numbers for things in the order in which they are made, the same in every run.
        self.numbers = itertools.count(1)
        self._turns = itertools.count(1)
        self._line: list[tuple[float, float, int, Actor]] = []
        self._actors: list[Actor] = []

    def spawn(self, process: Process, name: str, work: Callable[[], None]) -> Actor:
        """Start a new actor now."""

        def run() -> None:
            try:
                work()
            except Crashed:
                return

        actor = Actor(len(self._actors) + 1, process, name, run)
        self._actors.append(actor)
        self.wake(actor)
        return actor

    def wake(self, actor: Actor) -> None:
        """Let a waiting actor go on now."""
        self._line_up(actor, self.now)

    def sleep(self, seconds: float) -> None:
        """Let this time pass for the running actor."""
        actor = self.running
        self._line_up(actor, self.now + max(seconds, 0.0))
        self._step_aside(actor)

    def wait(self, seconds: float | None = None) -> None:
        """Let the running actor wait until it is woken, or until `seconds` have passed."""
        actor = self.running
        if seconds is not None:
            self._line_up(actor, self.now + max(seconds, 0.0))
        self._step_aside(actor)

    def interrupt(self, number: int, error: type[BaseException]) -> None:
        """Raise an error in the actor with this number when it goes on."""
        self._actors[number - 1].interrupt = error

    def clock(self) -> float:
        """Return the time that the clock of the running actor's process shows."""
        return self.now if self.current is None else self.clock_of(self.current.process)

    @contextmanager
    def seen_by(self, process: Process) -> Iterator[None]:
        """Let the product read that process's clock inside the block; no actor may wait there."""
        current, self.current = self.current, Actor(0, process, "observer", lambda: None)
        try:
            yield
        finally:
            self.current = current

    def clock_of(self, process: Process) -> float:
        """Return the time that the clock of that process shows."""
        return process.epoch + self.now * process.rate

    def true_seconds(self, seconds: float) -> float:
        """Return the virtual seconds in which the running actor's clock advances by `seconds`."""
        return seconds if self.current is None else seconds / self.current.process.rate

    def run(self, until: Callable[[], bool], deadline: float) -> bool:
        """Run the actors until `until` is true; return False if it is not by the deadline."""
        while not until():
            if not self._line or self._line[0][0] > deadline:
                self.now = deadline
                return False
            at, _, turn, actor = heapq.heappop(self._line)
            if turn != actor.turn or actor.process.gone or actor.greenlet.dead:
                continue
            if at < actor.process.frozen_until:
                self._line_up(actor, actor.process.frozen_until)
                continue
            self.now = max(self.now, at)
            self._go_on(actor)
        return True

    def close(self) -> None:
        """End all actors."""
        self.closing = True
        for actor in self._actors:
            # Repeated, because the actor's code may catch the error as one of its handler.
            while actor.greenlet and not actor.greenlet.dead:
                self.current = actor
                actor.greenlet.throw(Crashed)
        self.current = None

    @property
    def running(self) -> Actor:
        """The running actor.

        Raises:
            Crashed: the run is over.
        """
        if self.closing:
            raise Crashed
        if self.current is None:
            raise RuntimeError("only an actor can wait")
        return self.current

    def _line_up(self, actor: Actor, at: float) -> None:
        actor.turn = next(self._turns)
        heapq.heappush(self._line, (at, self._rng.random(), actor.turn, actor))

    def _go_on(self, actor: Actor) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Restless(f"{actor} after {self.steps} steps at {self.now:.3f}")
        self.current = actor
        actor.greenlet.parent = greenlet.getcurrent()
        actor.greenlet.switch()
        self.current = None

    def _step_aside(self, actor: Actor) -> None:
        parent = actor.greenlet.parent
        if parent is None:
            raise RuntimeError(f"{actor} was started by nobody")
        parent.switch()
        if actor.interrupt is not None:
            interrupt, actor.interrupt = actor.interrupt, None
            raise interrupt
