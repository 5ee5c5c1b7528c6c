"""Job types with effects that are easy to see: they add people, send e-mails, or enqueue jobs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db import transaction

from jobs.errors import Cancel, Fatal, Retryable
from jobs.execution.context import JobContext
from jobs.queue import EnqueueSpec, cancel
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from tenants.models import Firm

TWICE = RetryPolicy(max_attempts=2, base_delay_seconds=60)


class NamePayload(JobPayload):
    """The name of a person, and options of the handler."""

    name: str = "ada"
    options: dict[str, Any] = {}


def add_once(payload: NamePayload, ctx: JobContext) -> dict[str, str]:
    """Add a person of that name, unless there is one."""
    User.objects.get_or_create(username=payload.name)
    return {"added": payload.name}


def add_always(payload: NamePayload, ctx: JobContext) -> None:
    """Add a person."""
    User.objects.create(username=uuid4().hex, first_name=payload.name)


def add_in_a_step(payload: NamePayload, ctx: JobContext) -> None:
    """Add a person, once in the job's life."""
    ctx.step("add", lambda: User.objects.create(username=uuid4().hex).pk)


def flip(payload: NamePayload, ctx: JobContext) -> None:
    """Turn a person from active to inactive or back."""
    person, _ = User.objects.get_or_create(username=payload.name)
    person.is_active = not person.is_active
    person.save()


def write(payload: NamePayload, ctx: JobContext) -> None:
    """Send an e-mail."""
    send_mail(f"Dear {payload.name}", "…", None, ["somebody@example.org"])


def pass_on(payload: NamePayload, ctx: JobContext) -> None:
    """Enqueue another job, under the idempotency key of the options."""
    ctx.enqueue("kit.keyed", {"name": payload.name}, idempotency_key=payload.options.get("key"))


def fail_first(payload: NamePayload, ctx: JobContext) -> None:
    """Succeed at the second attempt."""
    if ctx.attempt == 1:
        raise RuntimeError("not yet")


def give_up(payload: NamePayload, ctx: JobContext) -> None:
    """Fail for good."""
    raise Fatal("no use")


def break_the_database(payload: NamePayload, ctx: JobContext) -> None:
    """Register an e-mail for the commit; add a person twice, which the database refuses."""
    transaction.on_commit(partial(send_mail, "on commit", "…", None, ["somebody@example.org"]))
    for _ in range(2):
        User.objects.create(username="twice")


def send_on_commit(payload: NamePayload, ctx: JobContext) -> None:
    """Send an e-mail when the transaction is committed."""
    with transaction.atomic():
        transaction.on_commit(partial(write, payload, ctx))


def leave_a_transaction_open(payload: NamePayload, ctx: JobContext) -> None:
    """Begin two atomic blocks and end neither; raise an error if the options say so."""
    transaction.atomic().__enter__()
    User.objects.create(username=payload.name)
    transaction.on_commit(partial(send_mail, "Dear ada", "…", None, ["somebody@example.org"]))
    transaction.atomic().__enter__()
    if message := payload.options.get("raises"):
        raise ValueError(message)


def fail_on_commit(payload: NamePayload, ctx: JobContext) -> None:
    """Add a person, and register for the commit what fails there: in Python, or in the database."""
    User.objects.create(username=payload.name)
    failing = break_the_database if payload.options["how"] == "database" else give_up
    with ctx.transaction() if payload.options["completing"] else transaction.atomic():
        transaction.on_commit(partial(failing, payload, ctx))


async def wait_for_a_loop(payload: NamePayload, ctx: JobContext) -> dict[str, int]:
    """Return the number of the attempt, as a coroutine."""
    await asyncio.sleep(0)
    return {"attempt": ctx.attempt}


async def step_on_a_loop(payload: NamePayload, ctx: JobContext) -> None:
    """Use the database from a coroutine; complete the job in a transaction with a write."""
    await ctx.astep("add", add_once, payload, ctx)
    await ctx.aenqueue("kit.keyed", {"name": payload.name})

    def finish(tx: Any) -> None:
        User.objects.filter(username=payload.name).update(first_name="done")
        tx.result = {"done": True}

    await ctx.run_in_transaction(finish)


def complete_in_a_transaction(payload: NamePayload, ctx: JobContext) -> None:
    """Add a person together with the completion."""
    with ctx.transaction() as tx:
        User.objects.create(username=uuid4().hex, first_name=payload.name)
        tx.result = {"added": payload.name}


def go_round(payload: NamePayload, ctx: JobContext) -> None:
    """Enqueue a job of the same type each time."""
    ctx.enqueue("kit.round")


def spread(payload: NamePayload, ctx: JobContext) -> None:
    """Enqueue many children at once."""
    ctx.enqueue_many([EnqueueSpec("kit.add")] * payload.options["children"])


def come_again(payload: NamePayload, ctx: JobContext) -> None:
    """Ask to be tried again at once, each time."""
    raise Retryable("once more", retry_after=0)


def be_canceled(payload: NamePayload, ctx: JobContext) -> None:
    """Cancel the job; the call of `ctx` after that stops the handler."""
    ctx.progress(0.1)
    cancel(ctx.job_id)
    ctx.progress(0.2)


def be_canceled_and_ask(payload: NamePayload, ctx: JobContext) -> None:
    """Cancel the job, notice that, and end as canceled."""
    ctx.progress(0.1)
    cancel(ctx.job_id)
    if ctx.is_cancelled:
        raise Cancel("tidied up")
    ctx.progress(0.2)


async def be_canceled_on_a_loop(payload: NamePayload, ctx: JobContext) -> None:
    """Cancel the job; the call of `ctx` after that stops the coroutine."""
    await ctx.aprogress(0.1)
    await sync_to_async(cancel)(ctx.job_id)
    await ctx.aprogress(0.2)


@pytest.fixture(autouse=True)
def kit_types(job_types: dict[str, Any]) -> None:
    """Declare all of these handlers."""
    handlers = {
        "kit.add": add_once,
        "kit.append": add_always,
        "kit.step": add_in_a_step,
        "kit.flip": flip,
        "kit.write": write,
        "kit.pass_on": pass_on,
        "kit.fail_first": fail_first,
        "kit.give_up": give_up,
        "kit.break": break_the_database,
        "kit.on_commit": send_on_commit,
        "kit.fail_on_commit": fail_on_commit,
        "kit.leave_open": leave_a_transaction_open,
        "kit.async": wait_for_a_loop,
        "kit.async_step": step_on_a_loop,
        "kit.transaction": complete_in_a_transaction,
        "kit.round": go_round,
        "kit.wide": spread,
        "kit.again": come_again,
        "kit.canceled": be_canceled,
        "kit.canceled_and_asks": be_canceled_and_ask,
        "kit.canceled_async": be_canceled_on_a_loop,
    }
    for name, handler in handlers.items():
        job(name, category="sync", payload=NamePayload, retry=TWICE)(handler)
    job("kit.keyed", category="sync", payload=NamePayload, lock_key=lambda p: f"name:{p.name}")(
        lambda payload, ctx: {"slot": True}
    )


@pytest.fixture(autouse=True)
def only_firm(firm: Firm) -> Firm:
    """Create the only firm, so that enqueues need not name it."""
    return firm
