"""Tasks as a project of `django.tasks` declares them."""

from __future__ import annotations

import asyncio
from typing import Any

from jobs.errors import Snooze
from jobs.queue import enqueue
from tests.jobs.tasks_backend.framework import TaskContext, task

# What the tasks have done, for tests that run them in their own process.
seen: list[Any] = []


@task
def noop(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


@task
async def noop_async(*args: Any, **kwargs: Any) -> None:
    """Do nothing, on a loop."""
    await asyncio.sleep(0)


@task
def add(first: int, second: int = 0) -> int:
    """Return a value."""
    seen.append((first, second))
    return first + second


@task
async def add_async(first: int, second: int = 0) -> int:
    """Return a value, from a loop."""
    await asyncio.sleep(0)
    return first + second


@task
def echo(value: Any = None, **kwargs: Any) -> Any:
    """Return the arguments."""
    return {"value": value, **kwargs}


@task
def tuples() -> Any:
    """Return values that JSON stores as other types."""
    return {"pair": (1, 2), "bytes": b"text"}


@task
def no_json() -> Any:
    """Return a value that JSON cannot hold."""
    return object()


@task
def fail() -> None:
    """Raise an ordinary error."""
    raise ValueError("it did not work")


@task
async def fail_async() -> None:
    """Raise an ordinary error on a loop."""
    raise ValueError("it did not work")


class Unspeakable(ValueError):
    """An error that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("unspeakable", lambda: None)


@task
def fail_unspeakably() -> None:
    """Raise an error that cannot be serialized."""
    raise Unspeakable


@task
def leave() -> None:
    """Exit the process."""
    raise SystemExit(3)


@task
def interrupt() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


@task(max_attempts=3)
def fail_until(success: int) -> str:
    """Fail until it has been called `success` times."""
    seen.append("called")
    if seen.count("called") < success:
        raise RuntimeError(f"call {seen.count('called')}")
    return "done"


@task(takes_context=True, max_attempts=3)
def look_around(context: TaskContext, *, failures: int = 0) -> dict[str, Any]:
    """Return what the context says."""
    result = context.task_result
    seen.append(result)
    if context.attempt <= failures:
        raise RuntimeError("once more")
    return {"attempt": context.attempt, "id": result.id, "status": str(result.status)}


@task(takes_context=True)
async def look_around_async(context: TaskContext) -> int:
    """Return the attempt's number, from a loop."""
    return context.attempt


@task
def enqueue_a_job() -> str:
    """Enqueue a job in the queue; return its id."""
    return str(enqueue("noop").job_id)


@task
def wait_a_minute() -> None:
    """Snooze for a minute at the first call."""
    seen.append("called")
    if len(seen) == 1:
        raise Snooze(seconds=60)


@task(priority=100, queue_name="urgent")
def urgent() -> str:
    """Run before the others."""
    return "urgent"


@task(priority=-100)
def whenever() -> str:
    """Run after the others."""
    return "whenever"


not_a_task = add.func


def _renamed() -> None:
    """Be a function whose task has another name."""


renamed = task(_renamed)


def replaced() -> None:
    """Be a function whose name in the module is later another task's."""


hidden = task(replaced)
replaced = noop  # type: ignore[assignment]
