"""The worker processes, and what replaces those that end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from uuid import UUID

from django.db import OperationalError

from jobs.conf import lease_seconds
from jobs.engine.rescue import rescue_reported
from jobs.worker.maintenance import finish_rescue
from jobs.worker.running_slots import RunningSlots
from jobs.worker.signals import StopRequests
from jobs.worker.worker import WorkerLoop, WorkerOptions
from tests.simulation.isolated import Child
from tests.simulation.scheduler import Process, Scheduler

RESTART_SECONDS = 0.5
REPEAT_SECONDS = 0.1
# The actor that stands for a supervisor's sidecar.
SIDECAR = "sidecar"
# The share of crashes that the supervisor survives, so that it reports what ran in the worker.
REPORTED_SHARE = 0.6
# How fast or slow a clock may run at most, so that a trusted lease is still valid.
RATES = (0.85, 1.15)


@dataclass
class Worker:
    """One life of a worker process."""

    process: Process
    loop: WorkerLoop
    requests: StopRequests


class Fleet:
    """A constant number of workers, whatever happens to them.

    `reported` is called for each crashed worker whose supervisor reports the crash.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        rng: Random,
        trace: Callable[[str], None],
        reported: Callable[[UUID], None],
    ) -> None:
        self.workers: dict[str, Worker] = {}
        # Processes that a repeated SIGTERM has ended at once.
        self.ended_by_signals: list[str] = []
        self._reported = reported
        self._scheduler = scheduler
        self._rng = rng
        self._trace = trace
        self._supervisor = Process("supervisor")
        self._lives = 0
        self._ending = False

    def start(self, size: int) -> None:
        """Start `size` workers."""
        for _ in range(size):
            self._scheduler.spawn(self._supervisor, "watch", self._start_one)

    def end(self) -> None:
        """Ask all workers to stop, and replace none."""
        self._ending = True
        for worker in self.workers.values():
            worker.loop.stop()

    def pick(self) -> Worker | None:
        """Return one of the living workers, by chance."""
        return self._rng.choice(list(self.workers.values())) if self.workers else None

    def crash(self, process: Process) -> None:
        """Kill a worker or an isolated process; its own threads do not return from here."""
        if isinstance(process, Child):
            process.die()
        elif process.name in self.workers:
            process.dead = True
            if self._rng.random() < REPORTED_SHARE:
                self._report(self.workers[process.name].loop.state.slots)
            self._gone(process, "crashed")
        current = self._scheduler.current
        if current is not None and current.process.gone:
            self._scheduler.wait()

    def freeze(self, process: Process) -> None:
        """Stop a worker for a while, as SIGSTOP does; isolated processes run on."""
        if process.name in self.workers:
            # A duration near the end of the lease is more likely than a much shorter or longer one.
            seconds = self._rng.triangular(0.1, 2.2, 1.1) * lease_seconds()
            process.frozen_until = self._scheduler.now + seconds
            self._trace(f"{process.name} is frozen for {seconds:.3f}")

    def stop(self, worker: Worker) -> None:
        """Send a worker a signal to stop, up to three times, as process groups may get it."""
        for _ in range(self._rng.randint(1, 3)):
            worker.requests.receive(signal.SIGTERM)
            self._scheduler.sleep(self._rng.uniform(0.0, REPEAT_SECONDS))

    def worker_of(self, process: Process) -> Worker | None:
        """Return the living worker of this process; None for any other process."""
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
        loop = WorkerLoop(options, RunningSlots.private(options.concurrency))
        requests = StopRequests(
            loop.stop, supervised=True, end_now=lambda: self.ended_by_signals.append(process.name)
        )
        self._scheduler.spawn(process, "signals", requests.serve)
        worker = Worker(process, loop, requests)
        self.workers[process.name] = worker
        if self._ending:
            worker.loop.stop()
        worker.loop.run()
        # The end of the main thread ends all other threads.
        process.dead = True
        self._gone(process, "ended")

    def _gone(self, process: Process, how: str) -> None:
        del self.workers[process.name]
        self._trace(f"{process.name} {how}")
        if not self._ending:
            self._scheduler.spawn(self._supervisor, "restart", self._restart)

    def _report(self, slots: RunningSlots) -> None:
        """Do what the supervisor and its sidecar do when a worker process has died."""
        worker_id, running = slots.worker_id, slots.running
        if worker_id is not None:
            self._reported(worker_id)
            self._scheduler.spawn(
                self._supervisor, SIDECAR, lambda: self._rescue(worker_id, running)
            )

    def _rescue(self, worker_id: UUID, running: Collection[int]) -> None:
        while True:
            try:
                finish_rescue(rescue_reported(worker_id, running, self._rng))
            except OperationalError:
                self._scheduler.sleep(RESTART_SECONDS)
            else:
                return

    def _restart(self) -> None:
        self._scheduler.sleep(RESTART_SECONDS)
        if not self._ending:
            self._start_one()
