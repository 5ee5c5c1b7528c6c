"""A job type that does the acts of its payload, each with an effect that a rehearsal must undo."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from django.core.mail import send_mail
from django.db import IntegrityError, connection, transaction

from jobs.errors import Fatal
from jobs.execution.context import JobContext
from jobs.models import Schedule
from jobs.queue import EnqueueSpec, enqueue_chain
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import Category
from tenants.models import Firm
from tenants.scope import firm_scope

ONCE = RetryPolicy(max_attempts=1)


class RehearsedPayload(JobPayload):
    """The acts, in order; files and databases are in `folder`."""

    acts: list[str]
    folder: str = ""


def _schedule(ctx: JobContext, name: str = "made") -> None:
    with firm_scope(ctx.firm_id):
        Schedule.objects.create(firm_id=ctx.firm_id, name=name, job_type="noop", cron="0 3 * * *")


def _in_thread(ctx: JobContext, _: str) -> None:
    errors: list[ConnectionError] = []

    def work() -> None:
        try:
            Firm.objects.filter(pk=ctx.firm_id).update(name="by a thread")
        except ConnectionError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise errors[0]


def _call(call: Any, *args: Any, **options: Any) -> None:
    """Call, and close the socket if one comes back."""
    with_socket = call(*args, **options)
    if isinstance(with_socket, socket.socket):
        with_socket.close()


def _connect(_: JobContext, __: str) -> None:
    with socket.socket() as one:
        one.connect(("192.0.2.1", 443))


def _commit(_: JobContext, __: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("COMMIT")


def _commit_by_driver(ctx: JobContext, _: str) -> None:
    connection.connection.commit()


def _twice(ctx: JobContext, _: str) -> None:
    """Fail once as in autocommit mode, and go on."""
    for _number in range(2):
        try:
            Firm.objects.create(name="Twice", slug="twice")
        except IntegrityError:
            logging.getLogger("tests").warning("the firm was there")


def _transaction(ctx: JobContext, _: str) -> None:
    with ctx.transaction() as tx:
        Schedule.objects.create(
            firm_id=ctx.firm_id, name="with it", job_type="noop", cron="0 3 * * *"
        )
        tx.result = {"made": 1}


def _then(ctx: JobContext, _: str) -> None:
    """Enqueue a child, a job to follow it, and a chain."""
    ctx.enqueue_many([EnqueueSpec("effect.leaf")], then=("effect.leaf", {}))
    chain = [EnqueueSpec("effect.leaf"), EnqueueSpec("noop"), EnqueueSpec("effect.leaf")]
    enqueue_chain(chain, firm=ctx.firm_id)


def _fail(_: JobContext, __: str) -> None:
    raise Fatal("it cannot be done")


ACTS = {
    "schedule": _schedule,
    "step": lambda ctx, _: ctx.step("charge", lambda: {"amount": 5}),
    "child": lambda ctx, _: ctx.enqueue("effect.leaf", {}, idempotency_key="leaf"),
    "then": _then,
    "log": lambda *_: logging.getLogger("tests").warning("charged with password=hunter2hunter2"),
    "dns": lambda *_: _call(socket.getaddrinfo, "mail.example", 443),
    "connect": _connect,
    "process": lambda *_: subprocess.run(["/bin/true", "secret"], check=True),
    "system": lambda *_: os.system("true"),
    "email": lambda *_: send_mail("Hello", "Text", "a@mailroom.example", ["b@mailroom.example"]),
    "email after": lambda *_: transaction.on_commit(
        lambda: send_mail("After", "Text", "a@mailroom.example", ["b@mailroom.example"])
    ),
    "file": lambda _, folder: Path(folder, "file").write_text("left", encoding="utf-8"),
    "remove": lambda _, folder: Path(folder, "kept").unlink(),
    "store": lambda _, folder: sqlite3.connect(Path(folder, "store.sqlite3")),
    "thread": _in_thread,
    "commit": _commit,
    "driver": _commit_by_driver,
    "twice": _twice,
    "transaction": _transaction,
    "sleep": lambda *_: time.sleep(3600),
    "eat": lambda *_: bytearray(2**30),
    "exit": lambda *_: os._exit(3),
    "fail": _fail,
}
# These acts are refused, and the handler goes on.
CALLS = ("dns", "connect", "process", "system", "file", "remove", "store", "thread")


@job("effect.rehearsed", category=Category.EXPORT, payload=RehearsedPayload, retry=ONCE)
@job(
    "effect.rehearsed_soon",
    category=Category.EXPORT,
    payload=RehearsedPayload,
    retry=ONCE,
    timeout_seconds=1,
)
def rehearsed(payload: RehearsedPayload, ctx: JobContext) -> dict[str, int]:
    """Do the acts; write a line to the log for each call that is refused."""
    for act in payload.acts:
        try:
            ACTS[act](ctx, payload.folder)
        except ConnectionError as error:
            logging.getLogger("tests").warning("refused: %s", error)
    return {"acts": len(payload.acts)}


@job("effect.rehearsed_async", category=Category.EXPORT, payload=RehearsedPayload, retry=ONCE)
async def rehearsed_async(payload: RehearsedPayload, ctx: JobContext) -> dict[str, Any]:
    """Do as `rehearsed` does, in an event loop."""
    charged = await ctx.astep("charge", lambda: 5)
    firm = await ctx.afirm()
    await ctx.aenqueue("effect.leaf", {})
    return {"charged": charged, "firm": firm.slug}
