"""Calls that a type checker must accept, and mistakes that it must find.

mypy reads this file with the project's code. If it no longer finds a mistake, the ignore is unused,
and that is an error, too.
"""

from __future__ import annotations

from datetime import date, timedelta
from uuid import UUID

from jobs.execution.context import JobContext
from jobs.queue import EnqueueResult, EnqueueSpec
from jobs.registry import JobPayload, job


class GreetPayload(JobPayload):
    """A payload with the person to greet."""

    name: str
    times: int = 1
    order: UUID | None = None
    on: date | None = None


class EmptyPayload(JobPayload):
    """A payload without fields of its own."""


@job("typed.greet", category="notifications", payload=GreetPayload)
def greet(payload: GreetPayload, ctx: JobContext) -> dict[str, str]:
    """Greet."""
    return {"greeting": f"Hello {payload.name}" * payload.times}


@job("typed.wave", category="notifications", payload=EmptyPayload)
async def wave(payload: EmptyPayload, ctx: JobContext) -> None:
    """Wave."""


def correct_calls() -> tuple[EnqueueResult, EnqueueResult, EnqueueSpec, dict[str, str]]:
    """Return what correct calls return."""
    return (
        greet.enqueue(name="Ada", on=date(2026, 3, 1)),
        wave.using(priority=0, delay=timedelta(hours=1)).enqueue(),
        greet.using(idempotency_key="ada").spec(name="Ada", times=2, order=UUID(int=7)),
        greet(GreetPayload(name="Ada"), None),
    )


async def correct_coroutines() -> EnqueueResult:
    """Return what a coroutine's call returns."""
    return await greet.using(firm=1).aenqueue(name="Ada")


def mistakes() -> None:
    """Make the mistakes that people make."""
    greet.enqueue(nme="Ada")  # type: ignore[call-arg]
    greet.enqueue(name=3)  # type: ignore[arg-type]
    greet.enqueue(name="Ada", times="twice")  # type: ignore[arg-type]
    greet.enqueue(name="Ada", order="7")  # type: ignore[arg-type]
    greet.enqueue()  # type: ignore[call-arg]
    greet.spec(name="Ada", age=3)  # type: ignore[call-arg]
    greet.using(dealy=3)  # type: ignore[call-arg]
    greet.using(priority="high")  # type: ignore[arg-type]
    wave.enqueue(name="Ada")  # type: ignore[call-arg]
    greet(EmptyPayload(), None)  # type: ignore[arg-type]
    GreetPayload(nme="Ada")  # type: ignore[call-arg]


# The payload of this handler is not that of its type.
@job("typed.wrong", category="notifications", payload=EmptyPayload)  # type: ignore[arg-type]
def wrong(payload: GreetPayload, ctx: JobContext) -> None:
    """Expect a name that the type's payload does not have."""


def step_results(ctx: JobContext) -> tuple[str, int]:
    """Return what steps return: a date as text."""
    on = ctx.step("date", date.fromisoformat, "2026-03-01")
    number: int = ctx.step("number", int, "3")
    ctx.step("slip", int, bse=3)  # type: ignore[call-overload]
    return on, number


async def async_step_results(ctx: JobContext) -> tuple[str, int, str]:
    """Return what steps of coroutines and of plain functions return."""

    async def fetch(number: int) -> int:
        return number

    async def order_id(number: int) -> UUID:
        return UUID(int=number)

    number: int = await ctx.astep("fetch", fetch, 3)
    on: str = await ctx.astep("date", date.fromisoformat, "2026-03-01")
    text: str = await ctx.astep("order", order_id, 3)
    await ctx.astep("slip", fetch, nmber=3)  # type: ignore[call-overload]
    return on, number, text


def children(ctx: JobContext) -> EnqueueResult:
    """Enqueue a child, and make a slip in an option."""
    ctx.enqueue("typed.greet", {"name": "Ada"}, dealy=3)  # type: ignore[call-arg]
    return ctx.enqueue("typed.greet", {"name": "Ada"}, delay=3, priority=0)
