"""One run: what the seed determines, a storm, a calm, and the checks."""

from __future__ import annotations

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from traceback import format_exc
from typing import ClassVar

import pytest
from django.conf import settings
from django.db import connection

from jobs import registry
from jobs.execution import events
from jobs.worker import isolation
from tenants.models import Firm
from tests.simulation.fleet import Fleet
from tests.simulation.isolated import VirtualIsolatedProcess
from tests.simulation.machine import install
from tests.simulation.network import Network
from tests.simulation.people import Nemesis, Operator, Producer
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.storage import FIRMS, begin_anew
from tests.simulation.watch import Watch
from tests.simulation.work import Workshop

LEASE_SECONDS = 3.0
STORM_SECONDS = (1.5, 4.5)
# By the end of this time the last lease, backoff and pause are over.
CALM_SECONDS = 60.0
LEAVE_SECONDS = 30.0
SHOWN = 80


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    seed: int
    violation: str
    trace: list[str]

    def story(self) -> str:
        """Return the violation and the last steps, for the message of a failure."""
        shown = self.trace[-SHOWN:]
        heading = f"seed {self.seed}: {self.violation}\nThe last {len(shown)} steps:"
        return "\n".join([heading, *shown])


def simulate(
    seed: int,
    content: sqlite3.Connection,
    mutate: Callable[[pytest.MonkeyPatch], None] | None = None,
    kind: type[World] | None = None,
) -> Run:
    """Run the world of this seed, beginning with this content of the database."""
    with pytest.MonkeyPatch.context() as monkeypatch, _quiet():
        world = (kind or World)(seed, content, monkeypatch)
        if mutate is not None:
            mutate(monkeypatch)
        try:
            world.run()
        except Exception as error:  # noqa: BLE001 - any error is a violation
            world.watch.fail(f"{type(error).__name__}: {error}\n{format_exc()}")
        finally:
            world.scheduler.close()
        return Run(seed, world.watch.violation, world.trace)


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing inside the block, because the trace tells more."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class World:
    """All that takes part in one run."""

    watch_type: ClassVar[type[Watch]] = Watch

    def __init__(
        self, seed: int, content: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.trace: list[str] = []
        self._seed = seed
        self._shift = 0.0
        self._rng = self._chance("world")
        self.scheduler = Scheduler(self._chance("order"))
        self._fleet = Fleet(
            self.scheduler,
            self._chance("fleet"),
            self._note,
            lambda worker_id: self.watch.reported(worker_id, self._workshop.running),
        )
        self.watch = self.watch_type(self.scheduler, self._fleet)
        self._network = Network(
            self.scheduler,
            self._chance("network"),
            crash=self._fleet.crash,
            freeze=self._fleet.freeze,
            committed=self.watch.committed,
            trace=self._note,
        )
        self._workshop = Workshop(
            self.scheduler,
            self._chance("work"),
            started=self.watch.started,
            crash=self._fleet.crash,
            trace=self._note,
        )
        begin_anew(content, self._database_time, monkeypatch)
        self._install(monkeypatch)
        firms = list(Firm.objects.filter(slug__in=FIRMS).order_by("pk"))
        self._clock_leaps = False
        self._producer, self._tasks = self._populate(firms)

    def _populate(self, firms: list[Firm]) -> tuple[Producer, dict[str, Callable[[], None]]]:
        """Return the producer, and the work of each actor, by name."""
        producer = Producer(self.scheduler, self._chance("producer"), self._workshop, firms)
        operator = Operator(self.scheduler, self._chance("operator"), producer, firms)
        nemesis = Nemesis(
            self.scheduler,
            self._chance("nemesis"),
            self._fleet,
            self._network,
            self._shift_clock,
            self._note,
        )
        tasks = {"producer": producer.work, "nemesis": nemesis.work}
        if self._rng.random() < 0.5:
            tasks["operator"] = operator.work
        self._clock_leaps = self._rng.random() < 0.4
        return producer, tasks

    def _install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(settings, "JOB_LEASE_SECONDS", LEASE_SECONDS)
        monkeypatch.setattr(registry, "_types", {})
        monkeypatch.setattr(events, "_subscribers", defaultdict(list))
        install(self.scheduler, self._chance("product"), monkeypatch)
        isolated = partial(VirtualIsolatedProcess, self.scheduler, self._chance("isolation"))
        monkeypatch.setattr(isolation, "IsolatedProcess", isolated)
        self._network.install(monkeypatch)
        self._workshop.declare()
        self.watch.install()

    def run(self) -> None:
        """Run the storm and the calm, and check that all jobs end."""
        self._fleet.start(self._rng.randint(2, 3))
        for name, work in self._tasks.items():
            self.scheduler.spawn(Process(name), "main", work)
        with connection.execute_wrapper(self._network.statement):
            self._run()
        if not self.watch.violation:
            self.watch.over(self._producer.accepted, self._workshop)

    def _run(self) -> None:
        self._weather_the_storm()
        settled = self._let_run(
            lambda: self._producer.done and not self.watch.unsettled(), CALM_SECONDS
        )
        self.watch.require(settled, f"stuck: {self.watch.unsettled()}")
        self._note("the end")
        self._fleet.end()
        left = self._let_run(lambda: not self._fleet.workers, LEAVE_SECONDS)
        self.watch.require(left, f"did not stop: {sorted(self._fleet.workers)}")

    def _weather_the_storm(self) -> None:
        self._let_run(lambda: False, self._rng.uniform(*STORM_SECONDS))
        self._note("calm")
        self._network.weather.storm = False

    def _let_run(self, until: Callable[[], bool], seconds: float) -> bool:
        """Run until `until` is true or there is a violation; return False if it takes too long."""
        return self.scheduler.run(
            lambda: bool(self.watch.violation) or until(), self.scheduler.now + seconds
        )

    def _chance(self, of: str) -> Random:
        """Return a source of chance for one purpose, which depends on the seed only."""
        return Random(f"{self._seed} {of}")

    def _database_time(self) -> float:
        return self.scheduler.now + self._shift

    def _shift_clock(self, seconds: float) -> None:
        if self._clock_leaps:
            self._note(f"the database's clock leaps by {seconds:.3f}")
            self._shift += seconds
            self.watch.honest_clock = False

    def _note(self, what: str) -> None:
        actor = self.scheduler.current
        self.trace.append(f"{self.scheduler.now:9.4f} {actor or 'world'}: {what}")
