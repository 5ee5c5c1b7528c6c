"""Job types whose every start and end is written down, and which fail as they are told to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from jobs.context import JobContext
from jobs.errors import Retryable
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import Category
from tests.support.journal import Journal

GATE_LOOK_SECONDS = 0.01
LATER_SECONDS = 3600
# Enough attempts for a job that loses its worker again and again.
PATIENT = RetryPolicy(
    max_attempts=40, backoff="fixed", base_delay_seconds=0.05, max_delay_seconds=0.05, jitter=0
)


class WorkPayload(JobPayload):
    """What to write down, and how long to take: until `gate` exists, then `seconds`."""

    journal: str
    label: str = ""
    gate: str = ""
    seconds: float = 0.0


class FailPayload(JobPayload):
    """How to fail, and in how many of the first attempts."""

    journal: str
    how: Literal["error", "later", "exit", "interrupt"]
    times: int


@job("process.work", category=Category.NOTIFICATIONS, payload=WorkPayload, retry=PATIENT)
@job("process.document", category=Category.DOCUMENTS, payload=WorkPayload, retry=PATIENT)
def work(payload: WorkPayload, ctx: JobContext) -> dict[str, int]:
    """Take as long as the payload says; the result is the attempt's number."""
    journal = Journal(Path(payload.journal))
    journal.start(ctx, payload.label)
    while payload.gate and not Path(payload.gate).exists():
        time.sleep(GATE_LOOK_SECONDS)
    if payload.seconds:
        time.sleep(payload.seconds)
    journal.end(ctx, payload.label)
    return {"attempt": ctx.attempt}


@job("process.fail", category=Category.NOTIFICATIONS, payload=FailPayload, retry=PATIENT)
def fail(payload: FailPayload, ctx: JobContext) -> None:
    """Fail the first attempts, then succeed."""
    Journal(Path(payload.journal)).start(ctx, payload.how)
    if ctx.attempt > payload.times:
        return
    match payload.how:
        case "error":
            raise RuntimeError("told to fail")
        case "later":
            raise Retryable("told to fail", retry_after=LATER_SECONDS)
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
