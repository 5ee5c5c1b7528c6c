"""The producer, the operator, and what causes trouble for all of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from uuid import UUID

from django.db import OperationalError

from jobs.engine.clock import database_now
from jobs.errors import LimitInvalid, UnknownJob, WrongState
from jobs.operations.jobs import cancel
from jobs.operations.limits import pause
from jobs.queue import EnqueueSpec, enqueue_many
from tenants.models import Firm
from tests.simulation.fleet import Fleet
from tests.simulation.network import Network
from tests.simulation.scheduler import Scheduler
from tests.simulation.work import Workshop

BATCHES = 4
BATCH = 4
KEYS = ("a", "b", None, None)
TYPES = ("sim.work", "sim.work", "sim.pair")


class Producer:
    """Enqueues jobs, and repeats an enqueue that got no answer."""

    def __init__(
        self, scheduler: Scheduler, rng: Random, workshop: Workshop, firms: list[Firm]
    ) -> None:
        self.accepted: set[UUID] = set()
        self.done = False
        self._scheduler = scheduler
        self._rng = rng
        self._workshop = workshop
        self._firms = firms

    def work(self) -> None:
        """Enqueue one batch after the other."""
        for _ in range(BATCHES):
            firm = self._rng.choice(self._firms)
            specs = [self._spec() for _ in range(self._rng.randint(1, BATCH))]
            self._enqueue(specs, firm)
            self._scheduler.sleep(self._rng.uniform(0.0, 1.5))
        self.done = True

    def _spec(self) -> EnqueueSpec:
        number = self._workshop.plan()
        return EnqueueSpec(
            self._rng.choice(TYPES),
            {"number": number},
            delay=self._rng.choice((0, 0, 0, 1.0)),
            priority=self._rng.choice((0, 2, 2, 3)),
            lock_key=self._rng.choice(KEYS),
            idempotency_key=f"job {number}",
        )

    def _enqueue(self, specs: list[EnqueueSpec], firm: Firm) -> None:
        while True:
            try:
                results = enqueue_many(specs, firm=firm)
            except OperationalError:
                self._scheduler.sleep(0.1)
            else:
                self.accepted |= {result.job_id for result in results}
                return


class Operator:
    """Cancels jobs, pauses firms and changes caps now and then."""

    def __init__(
        self, scheduler: Scheduler, rng: Random, producer: Producer, firms: list[Firm]
    ) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._producer = producer
        self._firms = firms

    def work(self) -> None:
        """Act until the producer has enqueued all jobs."""
        acts: list[Callable[[], None]] = [self._cancel, self._pause, self._set_cap]
        while not self._producer.done:
            self._scheduler.sleep(self._rng.uniform(0.5, 3.0))
            self._do(self._rng.choice(acts))

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (OperationalError, LimitInvalid, UnknownJob, WrongState):
            # The operator does not repeat an operation that failed or was refused.
            return

    def _cancel(self) -> None:
        if self._producer.accepted:
            job_id = self._rng.choice(sorted(self._producer.accepted))
            cancel(job_id, reason="no longer wanted")

    def _pause(self) -> None:
        firm = self._rng.choice(self._firms)
        pause(
            firm=firm,
            job_type=self._rng.choice((None, "sim.pair")),
            reason="maintenance",
            until=database_now() + timedelta(seconds=self._rng.uniform(0.5, 3.0)),
        )

    def _set_cap(self) -> None:
        firm = self._rng.choice(self._firms)
        cap = self._rng.choice((None, 1, 2, 3))
        Firm.objects.filter(pk=firm.pk).update(running_cap=cap)


class Nemesis:
    """Causes what concerns all processes at once, or a single one at an arbitrary moment."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: Random,
        fleet: Fleet,
        network: Network,
        shift_clock: Callable[[float], None],
        trace: Callable[[str], None],
    ) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._fleet = fleet
        self._network = network
        self._shift_clock = shift_clock
        self._trace = trace

    def work(self) -> None:
        """Cause trouble until the storm is over."""
        weather = self._network.weather
        while weather.storm:
            self._scheduler.sleep(self._rng.expovariate(1.0))
            act = self._rng.choice((self._strike, self._outage, self._slow, self._shift))
            if weather.storm:
                act()

    def _strike(self) -> None:
        worker = self._fleet.pick()
        if worker is None:
            return
        match self._rng.choice(("crash", "freeze", "stop")):
            case "crash":
                self._fleet.crash(worker.process)
            case "freeze":
                self._fleet.freeze(worker.process)
            case "stop":
                self._trace(f"stop {worker.process.name}")
                self._fleet.stop(worker)

    def _outage(self) -> None:
        self._trace("outage")
        self._network.weather.outage = True
        self._scheduler.sleep(self._rng.uniform(0.1, 4.0))
        self._network.weather.outage = False

    def _slow(self) -> None:
        self._trace("slow")
        self._network.weather.slow = True
        self._scheduler.sleep(self._rng.uniform(0.1, 2.0))
        self._network.weather.slow = False

    def _shift(self) -> None:
        self._shift_clock(self._rng.uniform(-5.0, 5.0))
