"""Job types whose handlers fork, and whose forks come back from the handler."""

from __future__ import annotations

import os
import sys

from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import Category

ONCE = RetryPolicy(max_attempts=1)
TYPES = ("fork.plain", "fork.async")
# The last code is larger than an exit code can be.
CODES = {"exits": 3, "exits without a code": None, "exits with a high code": 2**40 + 3}


def fork_several() -> dict[str, int]:
    """Return the exit codes of forked processes, none of which may get beyond the handler."""
    ends: dict[str, int] = {}
    for how in ("returns", "raises", *CODES):
        child = os.fork()
        if child == 0:
            if how == "raises":
                raise ValueError("raised in a fork")
            if how in CODES:
                sys.exit(CODES[how])
            return {}
        ends[how] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ends


@job(
    "fork.plain",
    category=Category.NOTIFICATIONS,
    payload=JobPayload,
    retry=ONCE,
    timeout_seconds=5,
)
def fork(payload: JobPayload, ctx: JobContext) -> dict[str, int]:
    """Fork on the handler's own thread."""
    return fork_several()


@job(
    "fork.async",
    category=Category.NOTIFICATIONS,
    payload=JobPayload,
    retry=ONCE,
    timeout_seconds=5,
)
async def fork_on_the_loop(payload: JobPayload, ctx: JobContext) -> dict[str, int]:
    """Fork on the thread of the event loop."""
    return fork_several()
