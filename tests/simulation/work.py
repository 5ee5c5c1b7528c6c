"""The jobs of a run: what their handlers do, and what they note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from django.db import connection

from jobs.errors import Fatal, Snooze
from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from tests.simulation.scheduler import Process, Scheduler
from tests.support.journal import Entry

MAX_ATTEMPTS = 3
TIMEOUT_SECONDS = 4.0
SNOOZE_SECONDS = 1.0
# How often some handlers look whether they should stop.
LOOK_SECONDS = 0.4


class Does(StrEnum):
    """How one run of a handler ends."""

    COMPLETES = "completes"
    COMPLETES_IN_A_TRANSACTION = "completes in a transaction"
    FAILS = "fails"
    GIVES_UP = "gives up"
    SNOOZES = "snoozes"
    KILLS = "kills its process"
    DAWDLES = "dawdles"


# How the runs of a job end, one after the other, with weights; the last one repeats.
COURSES: dict[tuple[Does, ...], int] = {
    (Does.COMPLETES,): 50,
    (Does.COMPLETES_IN_A_TRANSACTION,): 15,
    (Does.FAILS, Does.COMPLETES): 8,
    (Does.FAILS,): 3,
    (Does.GIVES_UP,): 3,
    (Does.SNOOZES, Does.COMPLETES): 6,
    (Does.KILLS, Does.COMPLETES): 5,
    (Does.KILLS,): 2,
    (Does.DAWDLES, Does.COMPLETES): 4,
    (Does.DAWDLES,): 1,
}


@dataclass(frozen=True)
class Plan:
    """What happens to a job."""

    course: tuple[Does, ...]
    seconds: float
    looks_up: bool


class Payload(JobPayload):
    """A payload with the number of the job's plan."""

    number: int


class Workshop:
    """Declares the job types and runs their handlers."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: Random,
        *,
        started: Callable[[JobContext], None],
        crash: Callable[[Process], None],
        trace: Callable[[str], None],
    ) -> None:
        self.plans: list[Plan] = []
        self.starts: list[Entry] = []
        # The tokens of the claims whose handlers run, or ran when their process died.
        self.running: set[int] = set()
        # In some runs all jobs are short, so that workers claim ahead.
        self._hurried = rng.random() < 0.3
        self._runs: Counter[int] = Counter()
        self._scheduler = scheduler
        self._rng = rng
        self._started = started
        self._crash = crash
        self._trace = trace

    def declare(self) -> None:
        """Declare the job types."""
        for name, lock_limit in (("sim.work", 1), ("sim.pair", 2)):
            job(
                name,
                category="sync",
                payload=Payload,
                retry=RetryPolicy(max_attempts=MAX_ATTEMPTS, base_delay_seconds=0.5),
                timeout_seconds=TIMEOUT_SECONDS,
                lock_limit=lock_limit,
            )(self._handle)

    def plan(self) -> int:
        """Plan a job by chance; return the number of the plan."""
        (course,) = self._rng.choices(list(COURSES), weights=list(COURSES.values()))
        seconds = 0.0 if self._hurried else self._rng.choice((0.01, self._rng.uniform(0.05, 1.5)))
        return self.add(Plan(course, seconds, looks_up=self._rng.random() < 0.3))

    def add(self, plan: Plan) -> int:
        """Add a plan; return its number."""
        self.plans.append(plan)
        return len(self.plans) - 1

    def entries(self) -> list[Entry]:
        """Return the starts of handlers."""
        return self.starts

    def _handle(self, payload: Payload, ctx: JobContext) -> None:
        plan = self.plans[payload.number]
        does = plan.course[min(self._runs[payload.number], len(plan.course) - 1)]
        self._runs[payload.number] += 1
        self._trace(f"job {payload.number} starts, attempt {ctx.attempt}: it {does}")
        self._note_start(ctx)
        self.running.add(ctx.fence)
        try:
            self._work(plan, ctx)
            self._end(does, ctx)
        finally:
            # A process that dies never gets here.
            self.running.discard(ctx.fence)
        self._trace(f"job {payload.number} ends")

    def _note_start(self, ctx: JobContext) -> None:
        self.starts.append(
            Entry(
                what="start",
                job_id=str(ctx.job_id),
                attempt=ctx.attempt,
                fence=ctx.fence,
                pid=0,
                session=0,
                thread=0,
                label="",
                at=self._scheduler.now,
            )
        )
        self._started(ctx)

    def _work(self, plan: Plan, ctx: JobContext) -> None:
        left = plan.seconds
        while left > 0:
            slice_seconds = min(left, LOOK_SECONDS) if plan.looks_up else left
            self._scheduler.sleep(slice_seconds)
            left -= slice_seconds
            if plan.looks_up:
                ctx.heartbeat()

    def _end(self, does: Does, ctx: JobContext) -> None:
        match does:
            case Does.COMPLETES_IN_A_TRANSACTION:
                with ctx.transaction(), connection.cursor() as cursor:
                    cursor.execute("INSERT INTO test_effect VALUES (%s)", [str(ctx.job_id)])
            case Does.FAILS:
                raise ValueError("it broke")
            case Does.GIVES_UP:
                raise Fatal("never")
            case Does.SNOOZES:
                raise Snooze(seconds=SNOOZE_SECONDS)
            case Does.KILLS:
                self._crash(self._scheduler.running.process)
            case Does.DAWDLES:
                while True:
                    self._scheduler.sleep(LOOK_SECONDS)
                    ctx.heartbeat()
