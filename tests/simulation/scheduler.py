"""Decides who runs next, and when: virtual threads of virtual processes in virtual time.

A virtual thread is a greenlet. It runs until it sleeps or waits; then the next one by time runs,
and of those with the same time one that the seed picks. Running takes no time at all.
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
    """Ends a thread whose process, or whose world, is gone."""


class Restless(Exception):
    """Something goes round without ever letting time pass."""


# So many steps are far more than any run has; a loop without end shows here.
MOST_STEPS = 200_000


@dataclass(eq=False)
class Process:
    """What lives, freezes and dies as a whole, and has a clock of its own.

    `rate` is how fast that clock runs, `epoch` what it shows at the beginning of time. A process
    with a `parent` dies with it.
    """

    name: str
    rate: float = 1.0
    epoch: float = 0.0
    parent: Process | None = None
    dead: bool = False
    frozen_until: float = 0.0

    @property
    def gone(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.dead or (self.parent is not None and self.parent.gone)


class Actor:
    """A virtual thread."""

    def __init__(self, number: int, process: Process, name: str, work: Callable[[], None]) -> None:
        self.number = number
        self.process = process
        self.name = name
        # Raised in it when it next goes on.
        self.interrupt: type[BaseException] | None = None
        # Its place in the line that counts; older ones were overtaken by an earlier wake-up.
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
        # Numbers things in the order they come to be, the same in every run.
        self.numbers = itertools.count(1)
        self._turns = itertools.count(1)
        self._line: list[tuple[float, float, int, Actor]] = []
        self._actors: list[Actor] = []

    def spawn(self, process: Process, name: str, work: Callable[[], None]) -> Actor:
        """Let a new actor begin now."""

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
        """Let an actor go on now that waits."""
        self._line_up(actor, self.now)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the actor that runs."""
        actor = self.running
        self._line_up(actor, self.now + max(seconds, 0.0))
        self._step_aside(actor)

    def wait(self, seconds: float | None = None) -> None:
        """Keep the actor that runs from going on until it is woken, or `seconds` have passed."""
        actor = self.running
        if seconds is not None:
            self._line_up(actor, self.now + max(seconds, 0.0))
        self._step_aside(actor)

    def interrupt(self, number: int, error: type[BaseException]) -> None:
        """Raise an error in the actor of this number, when it next goes on."""
        self._actors[number - 1].interrupt = error

    def clock(self) -> float:
        """Return what the clock of the running actor's process shows."""
        return self.now if self.current is None else self.clock_of(self.current.process)

    @contextmanager
    def seen_by(self, process: Process) -> Iterator[None]:
        """Let the product see that process's clock inside the block, in which nobody waits."""
        current, self.current = self.current, Actor(0, process, "observer", lambda: None)
        try:
            yield
        finally:
            self.current = current

    def clock_of(self, process: Process) -> float:
        """Return what the clock of that process shows."""
        return process.epoch + self.now * process.rate

    def true_seconds(self, seconds: float) -> float:
        """Return how long something takes that takes so long by the running actor's clock."""
        return seconds if self.current is None else seconds / self.current.process.rate

    def run(self, until: Callable[[], bool], deadline: float) -> bool:
        """Let them run until that is so. False: it was not by the deadline."""
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
        """End whatever is left of every actor."""
        self.closing = True
        for actor in self._actors:
            # An except clause of the actor's own may take one for its handler's error.
            while actor.greenlet and not actor.greenlet.dead:
                self.current = actor
                actor.greenlet.throw(Crashed)
        self.current = None

    @property
    def running(self) -> Actor:
        """The actor that runs.

        Raises:
            Crashed: the world ends.
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
