"""A job type with every kind of lasting effect, which kills its process at a given point."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from jobs.errors import Snooze
from jobs.execution.context import JobContext
from jobs.queue import EnqueueSpec
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import Category
from tests.support.effectjobs import forks, rehearsed
from tests.support.journal import Journal

assert forks
assert rehearsed

Point = Literal[
    "after claim",
    "mid step",
    "after step",
    "before commit of children",
    "after commit of children",
    "after effect",
    "before commit",
    "after commit",
]
Execute = Callable[[str, Any, bool, Any], Any]
POINTS: tuple[Point, ...] = get_args(Point)
STEP = "charge"
LEAVES = 2
LONG_SECONDS = 3600.0
SHORT_SECONDS = 0.01
PATIENT = RetryPolicy(
    max_attempts=40, backoff="fixed", base_delay_seconds=0.05, max_delay_seconds=0.05, jitter=0
)


class EffectPayload(JobPayload):
    """The point at which each of the first attempts kills its process."""

    journal: str
    kills: list[Point]


class LeafPayload(JobPayload):
    """A payload without fields of its own."""


Leaving = Literal["begin", "autocommit", "atomic", "driver", "snooze", "raise", "timeout"]
Thread = Literal["own", "orm", "to_thread", "step"]
LEAVINGS: tuple[Leaving, ...] = get_args(Leaving)
THREADS: tuple[Thread, ...] = get_args(Thread)


class WritePayload(JobPayload):
    """How the handler leaves the transaction in which it writes a row; None ends it in order.

    `thread` is where that happens: a plain handler's own thread, or for an asynchronous one any
    other.
    """

    leaving: Leaving | None = None
    thread: Thread = "own"


def steps_of(journal: Journal) -> Journal:
    """Return the journal of steps: a start when a step runs, an end when its result is stored."""
    return Journal(journal.path.with_suffix(".steps"))


def kills_of(journal: Journal) -> Journal:
    """Return the journal of kills: a start just before each kill, with its point as the label."""
    return Journal(journal.path.with_suffix(".kills"))


class Killer:
    """Kills the process at the point that the payload gives for this attempt."""

    def __init__(self, payload: EffectPayload, ctx: JobContext) -> None:
        self._journal = kills_of(Journal(Path(payload.journal)))
        self._ctx = ctx
        past = ctx.attempt > len(payload.kills)
        self._point = None if past else payload.kills[ctx.attempt - 1]

    def at(self, point: Point) -> None:
        """Kill the process if this is the attempt's point."""
        if point == self._point:
            self._journal.start(self._ctx, point)
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def around_commit(self, what: str, before: Point, after: Point) -> Iterator[None]:
        """Pass the points before and after the commit of a transaction with the SQL `what`."""
        commit = connection.commit
        written: list[str] = []

        def note(execute: Execute, sql: str, params: Any, many: bool, context: Any) -> Any:
            if what in sql:
                written.append(sql)
            return execute(sql, params, many, context)

        def pass_by() -> None:
            if written:
                self.at(before)
            commit()
            if written:
                self.at(after)

        connection.commit = pass_by  # type: ignore[method-assign]  # restored below
        try:
            with connection.execute_wrapper(note):
                yield
        finally:
            connection.commit = commit  # type: ignore[method-assign]


@job("effect.leaf", category=Category.NOTIFICATIONS, payload=LeafPayload, retry=PATIENT)
@job("effect.sum", category=Category.NOTIFICATIONS, payload=LeafPayload, retry=PATIENT)
def leaf(payload: LeafPayload, ctx: JobContext) -> None:
    """Do nothing."""


@job("effect.make", category=Category.NOTIFICATIONS, payload=EffectPayload, retry=PATIENT)
def make(payload: EffectPayload, ctx: JobContext) -> None:
    """Run a step, fan out, and write a row in the transaction that completes the job."""
    journal = Journal(Path(payload.journal))
    steps, killer = steps_of(journal), Killer(payload, ctx)
    journal.start(ctx, "make")
    killer.at("after claim")

    def charge() -> int:
        steps.start(ctx, STEP)
        killer.at("mid step")
        return ctx.attempt

    charged = ctx.step(STEP, charge)
    steps.end(ctx, STEP)
    killer.at("after step")
    with killer.around_commit(
        "INSERT INTO jobs_fanin ", "before commit of children", "after commit of children"
    ):
        ctx.enqueue_many([EnqueueSpec("effect.leaf")] * LEAVES, then=("effect.sum", {}))
    completion = killer.around_commit("SET status", "before commit", "after commit")
    with completion, ctx.transaction() as tx:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO test_effect (job_id, attempt) VALUES (%s, %s)",
                [str(ctx.job_id), ctx.attempt],
            )
        tx.result = {"charged": charged, "attempt": ctx.attempt}
        killer.at("after effect")


@job("effect.write", category=Category.NOTIFICATIONS, payload=WritePayload, timeout_seconds=1)
def write(payload: WritePayload, ctx: JobContext) -> None:
    """Write a row, and leave its transaction open if the payload says so."""
    _write(ctx, payload.leaving)


@job("effect.awrite", category=Category.NOTIFICATIONS, payload=WritePayload, timeout_seconds=1)
async def awrite(payload: WritePayload, ctx: JobContext) -> None:
    """Do as `write` does, on a thread beside the event loop."""
    match payload.thread:
        case "to_thread":
            await asyncio.to_thread(_write, ctx, payload.leaving)
        case "step":
            await ctx.astep("write", _write, ctx, payload.leaving)
        case _:
            await sync_to_async(_write)(ctx, payload.leaving)


def _write(ctx: JobContext, leaving: Leaving | None) -> None:
    _begin(leaving)
    while leaving == "timeout":
        # No lock is taken yet, because on SQLite the worker itself would wait for it.
        time.sleep(SHORT_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO test_effect (job_id, attempt) VALUES (%s, %s)",
            [str(ctx.job_id), ctx.attempt],
        )
    match leaving:
        case "snooze":
            raise Snooze(seconds=LONG_SECONDS)
        case "raise":
            raise ValueError("told to fail")


def _begin(leaving: Leaving | None) -> None:
    match leaving:
        case None:
            return
        case "autocommit":
            transaction.set_autocommit(False)
        case "atomic":
            transaction.atomic().__enter__()
        case "driver" if connection.vendor == "postgresql":
            connection.ensure_connection()
            connection.connection.autocommit = False
        case "driver":
            connection.ensure_connection()
            connection.connection.isolation_level = "DEFERRED"
        case _:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
