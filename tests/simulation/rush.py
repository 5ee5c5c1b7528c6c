"""A run without storms, in which claims wait in workers and something is decided about them.

First there are short jobs, so that workers claim ahead, then long ones of the same type, so that
claims wait. Meanwhile jobs are canceled, paused, and expire.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from jobs.engine.clock import database_now
from jobs.errors import LimitInvalid, UnknownJob, WrongState
from jobs.execution.context import JobContext
from jobs.operations.jobs import cancel
from jobs.operations.limits import pause
from jobs.queue import EnqueueSpec
from tenants.models import Firm
from tests.simulation.fleet import RATES
from tests.simulation.people import Producer
from tests.simulation.watch import Watch
from tests.simulation.work import Does, Plan
from tests.simulation.world import World

SHORT_JOBS = 24
LONG_JOBS = 16
# A second by the slowest clock, and a call to the database that is under way.
REACH_SECONDS = 1.0 / min(RATES) + 0.2
# How wrong a clock may become while a claim waits.
EXPIRY_SECONDS = 0.2

IN_FLIGHT = """SELECT job_id, lease_token, cancel_requested_at IS NOT NULL FROM jobs_jobqueue
    WHERE status IN ('claimed', 'processing')"""
PAUSES = """SELECT id, firm_id, job_type, until || '', virtual_now() FROM jobs_pause
    WHERE until > virtual_now()"""
EXPIRED = """SELECT (julianday(virtual_now()) - julianday(expires_at)) * 86400 FROM jobs_jobqueue
    WHERE job_id = %s AND expires_at IS NOT NULL"""


class RushProducer(Producer):
    """Enqueues short jobs, then long ones."""

    def work(self) -> None:
        """Enqueue the short jobs of each firm, then the long ones."""
        for seconds, count in (((0.0, 0.004), SHORT_JOBS), ((0.2, 0.9), LONG_JOBS)):
            for firm in self._firms:
                specs = [self._rush_spec(*seconds) for _ in range(count)]
                self._enqueue(specs, firm)
            self._scheduler.sleep(self._rng.uniform(1.0, 1.5))
        self.done = True

    def _rush_spec(self, least: float, most: float) -> EnqueueSpec:
        plan = Plan((Does.COMPLETES,), self._rng.uniform(least, most), looks_up=False)
        expires = self._rng.random() < 0.3 and least
        return EnqueueSpec(
            "sim.work",
            {"number": self._workshop.add(plan)},
            expires_at=database_now() + timedelta(seconds=self._rng.uniform(0.3, 6.0))
            if expires
            else None,
        )


class RushWatch(Watch):
    """Also checks how long claims wait, and what is decided about them meanwhile."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._claimed_at: dict[int, float] = {}
        self._canceled_at: dict[str, float] = {}
        # Since when each pause has been in force, and until when.
        self._paused: dict[str, tuple[float, str]] = {}

    def committed(self) -> None:
        """Note which claims, cancels and pauses are new, and when they came."""
        super().committed()
        raw: sqlite3.Connection = connection.connection
        now = self._scheduler.now
        for job_id, token, canceled in raw.execute(IN_FLIGHT):
            self._claimed_at.setdefault(token, now)
            if canceled:
                self._canceled_at.setdefault(job_id, now)
        for pause_id, _, _, until, database_time in raw.execute(PAUSES):
            since, ended = self._paused.get(pause_id, (now, until))
            # A pause that is over keeps its row if it is set again.
            self._paused[pause_id] = now if ended <= database_time else since, until

    def started(self, ctx: JobContext) -> None:
        """Check that no decision against the job is older than a second when its handler starts."""
        super().started(ctx)
        now, job_id = self._scheduler.now, ctx.job_id.hex
        self._in_reach(now - self._claimed_at[ctx.fence], "it was claimed")
        self._in_reach(now - self._canceled_at.get(job_id, now), "it was canceled")
        raw: sqlite3.Connection = connection.connection
        row = self._rows[job_id]
        for pause_id, firm_id, job_type, *_ in raw.execute(PAUSES):
            if firm_id == row.firm_id and job_type in ("", "sim.work"):
                self._in_reach(now - self._paused[pause_id][0], "it was paused")
        for (late,) in raw.execute(EXPIRED.replace("%s", "?"), [job_id]):
            self.require(late < EXPIRY_SECONDS, f"started {late:.3f} s after it had expired")

    def _in_reach(self, seconds: float, what: str) -> None:
        self.require(seconds <= REACH_SECONDS, f"started {seconds:.3f} s after {what}")


class Rush(World):
    """All that takes part in such a run."""

    watch_type = RushWatch

    def _populate(self, firms: list[Firm]) -> tuple[Producer, dict[str, Callable[[], None]]]:
        producer = RushProducer(self.scheduler, self._chance("producer"), self._workshop, firms)
        self._firms = firms
        return producer, {"producer": producer.work, "operator": self._decide}

    def _weather_the_storm(self) -> None:
        self._network.weather.storm = False

    def _decide(self) -> None:
        """Cancel and pause while there are jobs left."""
        rng = self._chance("operator")
        while not self._producer.done or self.watch.unsettled():
            self.scheduler.sleep(rng.uniform(0.05, 0.5))
            left = self.watch.unsettled()
            with suppress(LimitInvalid, UnknownJob, WrongState):
                if rng.random() < 0.2:
                    until = database_now() + timedelta(seconds=rng.uniform(1.5, 4.0))
                    job_type = rng.choice((None, "sim.work"))
                    firm = rng.choice(self._firms)
                    pause(firm=firm, job_type=job_type, reason="maintenance", until=until)
                elif left:
                    cancel(UUID(rng.choice(left).job_id), reason="no longer wanted")
