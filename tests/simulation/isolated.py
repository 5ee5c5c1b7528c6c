"""Isolated processes of virtual workers."""

from __future__ import annotations

from random import Random

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome
from jobs.execution.context import Signals
from jobs.execution.executor import execute
from jobs.worker.isolation import ProcessDied
from jobs.worker.threads import StopReason
from tests.simulation.primitives import Event
from tests.simulation.scheduler import Process, Scheduler

START_SECONDS = 0.2


class Child(Process):
    """A process that dies with its worker; a worker that waits for its answer is told."""

    def __init__(self, name: str, parent: Process, told: Event) -> None:
        super().__init__(name, rate=parent.rate, epoch=parent.epoch, parent=parent)
        self.told = told

    def die(self) -> None:
        """Mark the process as dead, and tell the worker that waits."""
        self.dead = True
        self.told.set()


class VirtualIsolatedProcess:
    """Stands in for `jobs.worker.isolation.IsolatedProcess`."""

    def __init__(self, scheduler: Scheduler, rng: Random) -> None:
        worker = scheduler.running.process
        name = f"{worker.name}.{next(scheduler.numbers)}"
        self.idle_since = 0.0
        self._child = Child(name, worker, Event(scheduler))
        self._signals = Signals()
        self._scheduler = scheduler
        self._rng = rng

    @property
    def alive(self) -> bool:
        """Whether the process can run a job."""
        return not self._child.dead

    def wait_until_ready(self) -> None:
        """Wait until the process can run a job."""
        self._scheduler.sleep(START_SECONDS)

    def run(self, claim: Claim) -> Outcome:
        """Run the handler of the claimed job in the process.

        Raises:
            ProcessDied: the handler killed the process, or somebody did.
        """
        answers: list[Outcome] = []
        self._signals = Signals()
        self._child.told.clear()

        def work() -> None:
            answers.append(execute(claim, rng=self._rng, signals=self._signals))
            self._child.told.set()

        self._scheduler.spawn(self._child, "handler", work)
        self._child.told.wait()
        if not answers:
            raise ProcessDied("killed by SIGKILL")
        return answers[0]

    def stop(self, reason: StopReason) -> None:
        """Pass the request to stop on to the handler."""
        match reason:
            case StopReason.CANCEL:
                self._signals.cancel_requested = True
            case StopReason.TIMEOUT:
                self._signals.timed_out = True

    def kill(self) -> None:
        """Kill the process."""
        self._child.die()

    def close(self) -> None:
        """Kill the process, which runs no job."""
        self._child.die()
