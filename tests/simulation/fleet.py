"""Worker processes, and what keeps replacing the fallen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from jobs.conf import lease_seconds
from jobs.worker.worker import WorkerLoop, WorkerOptions
from tests.simulation.isolated import Child
from tests.simulation.scheduler import Process, Scheduler

RESTART_SECONDS = 0.5
# How wrong a clock may go at most before the trust in a lease is no longer worth anything.
RATES = (0.85, 1.15)


@dataclass
class Worker:
    """A worker process in one of its lives."""

    process: Process
    loop: WorkerLoop


class Fleet:
    """As many workers as there are to be, whatever happens to them."""

    def __init__(self, scheduler: Scheduler, rng: Random, trace: Callable[[str], None]) -> None:
        self.workers: dict[str, Worker] = {}
        self._scheduler = scheduler
        self._rng = rng
        self._trace = trace
        self._supervisor = Process("supervisor")
        self._lives = 0
        self._ending = False

    def start(self, size: int) -> None:
        """Start so many workers."""
        for _ in range(size):
            self._scheduler.spawn(self._supervisor, "watch", self._start_one)

    def end(self) -> None:
        """Ask all of them to stop, and replace none."""
        self._ending = True
        for worker in self.workers.values():
            worker.loop.stop()

    def pick(self) -> Worker | None:
        """Return one of those that live."""
        return self._rng.choice(list(self.workers.values())) if self.workers else None

    def crash(self, process: Process) -> None:
        """Kill a worker, or an isolated process; the thread that calls it there ends here."""
        if isinstance(process, Child):
            process.die()
        elif process.name in self.workers:
            process.dead = True
            self._gone(process, "crashed")
        current = self._scheduler.current
        if current is not None and current.process.gone:
            self._scheduler.wait()

    def freeze(self, process: Process) -> None:
        """Stop a worker for a while, as SIGSTOP does; isolated processes run on."""
        if process.name in self.workers:
            # The more often, the nearer to the end of the lease.
            seconds = self._rng.triangular(0.1, 2.2, 1.1) * lease_seconds()
            process.frozen_until = self._scheduler.now + seconds
            self._trace(f"{process.name} is frozen for {seconds:.3f}")

    def worker_of(self, process: Process) -> Worker | None:
        """Return the living worker whose process this is, None for any other."""
        return self.workers.get(process.name)

    def _start_one(self) -> None:
        self._lives += 1
        process = Process(
            f"worker-{self._lives}",
            rate=self._rng.uniform(*RATES),
            epoch=self._rng.uniform(0, 1e5),
        )
        self._scheduler.spawn(process, "main", lambda: self._live(process))

    def _live(self, process: Process) -> None:
        options = WorkerOptions(
            concurrency=self._rng.randint(1, 3),
            poll_seconds=2.5,
            grace_seconds=self._rng.choice((0.2, 3.0)),
            scheduler=False,
        )
        worker = Worker(process, WorkerLoop(options))
        self.workers[process.name] = worker
        if self._ending:
            worker.loop.stop()
        worker.loop.run()
        # With the main thread all others end.
        process.dead = True
        self._gone(process, "ended")

    def _gone(self, process: Process, how: str) -> None:
        del self.workers[process.name]
        self._trace(f"{process.name} {how}")
        if not self._ending:
            self._scheduler.spawn(self._supervisor, "restart", self._restart)

    def _restart(self) -> None:
        self._scheduler.sleep(RESTART_SECONDS)
        if not self._ending:
            self._start_one()
