"""The job types of the machine, and how their handlers can end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any
from uuid import UUID

from jobs.errors import Cancel, Fatal, LeaseLost, Retryable, Snooze
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy

ASKED_DELAY = 30
SNOOZE = 45


@dataclass(frozen=True)
class Kind:
    """A job type; `known` is False if only newer code has a handler for it."""

    name: str
    category: str = "sync"
    max_attempts: int = 2
    lock_limit: int = 1
    dead_letter: bool = True
    once_only: bool = False
    known: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        Kind("model.work"),
        Kind("model.export", category="export", max_attempts=3),
        Kind("model.pair", lock_limit=2),
        Kind("model.shrug", dead_letter=False, max_attempts=1),
        Kind("model.once", once_only=True),
        Kind("model.newer", category="export", known=False),
    )
}


class Does(StrEnum):
    """How a handler ends."""

    COMPLETES = "completes"
    FAILS = "fails"
    ASKS_FOR_A_DELAY = "asks for a delay"
    GIVES_UP = "gives up"
    SNOOZES = "snoozes"
    CANCELS = "cancels"
    LOSES_ITS_LEASE = "loses its lease"
    CLAIMS_A_LOSS = "raises LeaseLost while its lease stands"
    DIES = "dies with a process of its own"


class Middle(Random):
    """Draws the middle of every range, so that jitter is the same each time."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class MachinePayload(JobPayload):
    """A payload without fields of its own."""


# How the next run of each job's handler ends.
planned: dict[UUID, Does] = {}


def declare_kinds() -> None:
    """Declare the known job types."""
    for kind in KINDS.values():
        if kind.known:
            job(
                kind.name,
                category=kind.category,
                payload=MachinePayload,
                retry=RetryPolicy(max_attempts=kind.max_attempts),
                lock_limit=kind.lock_limit,
                dead_letter=kind.dead_letter,
                once_only=kind.once_only,
            )(handle)


def handle(payload: MachinePayload, ctx: Any) -> None:
    """End in the way that is planned for this job."""
    match planned[ctx.job_id]:
        case Does.FAILS:
            raise ValueError("it broke")
        case Does.ASKS_FOR_A_DELAY:
            raise Retryable("not now", retry_after=ASKED_DELAY)
        case Does.GIVES_UP:
            raise Fatal("never")
        case Does.SNOOZES:
            raise Snooze(seconds=SNOOZE)
        case Does.CANCELS:
            raise Cancel("no more")
        case Does.LOSES_ITS_LEASE:
            ctx._signals.lease_lost.set()
            ctx.heartbeat()
        case Does.CLAIMS_A_LOSS:
            raise LeaseLost("so it says")
