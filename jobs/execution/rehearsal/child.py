"""The process of a rehearsal: it reads a request, runs the job, rolls back, and writes a report."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from random import SystemRandom
from typing import Any
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from uuid_utils.compat import uuid7

from interfaces.redaction import redact
from jobs.conf import isolated_memory_mb
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Completed, DeadLettered, Outcome, Retry
from jobs.engine.redaction import redact_secrets
from jobs.engine.rehearsal import (
    KINDS,
    children_since,
    claim_dead,
    completed_result,
    followers_since,
    refuse_commit,
    watch_writes,
    written_rows,
)
from jobs.engine.requeue import Restart
from jobs.errors import JobTimeout
from jobs.execution.async_bridge import calls_stay_on_this_thread, run_on_this_thread
from jobs.execution.child_process import die_with_parent, limit_memory
from jobs.execution.context import Signals
from jobs.execution.executor import execute
from jobs.execution.rehearsal import outgoing
from jobs.execution.rehearsal.records import (
    STEPS,
    LogLines,
    RehearsalContext,
    SavedRows,
    run_statement,
)

# How long the job waits for rows that others have locked.
LOCK_SECONDS = 5.0
OUTCOMES = {
    "Completed": "completed",
    "Retry": "retried",
    "Snoozed": "snoozed",
    "Canceled": "canceled",
    "DeadLettered": "dead_lettered",
    "Released": "released",
}
UNFINISHED = "unfinished"


def main() -> None:
    """Read the request from standard input, write the report to standard output, and exit."""
    die_with_parent()
    request = json.load(sys.stdin)
    answer = os.dup(1)
    # What the handler prints is no part of the report.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.dont_write_bytecode = True
    limit_memory(isolated_memory_mb() * 2**20)
    try:
        report = _rehearse(request)
    except Exception as error:  # noqa: BLE001 - whoever rehearses has to see what went wrong
        message = f"the rehearsal itself failed: {redact(str(error), 2000)}"
        report = {"outcome": UNFINISHED, "error": _error(type(error).__name__, message)}
    with os.fdopen(answer, "w") as pipe:
        json.dump(report, pipe, default=str)
    # Does not wait for threads that the handler may have left behind.
    os._exit(0)


def _rehearse(request: dict[str, Any]) -> dict[str, Any]:
    scratch = Path(request["scratch"])
    tempfile.tempdir = str(scratch)
    _list_emails()
    _open_database(request["database"], scratch)
    seconds: float = request["seconds"]
    with _rolled_back():
        refuse_commit(seconds, LOCK_SECONDS)
        change = Restart(request["payload"], request["payload_version"])
        claim = claim_dead(UUID(request["job_id"]), change)
        if claim is None:
            return {"outcome": UNFINISHED, "error": _error("WrongState", "the job is not over")}
        return _run(claim, seconds, scratch)


def _list_emails() -> None:
    """Have e-mails listed in place of sent, whichever of its mailers a handler sends them with."""
    backend = f"{outgoing.__name__}.{outgoing.EmailBackend.__name__}"
    mailers = getattr(settings, "MAILERS", None)
    if mailers is None:
        settings.EMAIL_BACKEND = backend
    else:
        # Beside this setting, which Django has from 6.1 on, no other one about e-mail is read.
        settings.MAILERS = {alias: {"BACKEND": backend} for alias in mailers}


def _open_database(name: str, scratch: Path) -> None:
    """Connect to the parent's database; on SQLite to a copy, so that nobody waits for the rehearsal."""
    if connection.vendor == "sqlite":
        copy = scratch / "database.sqlite3"
        with (
            closing(sqlite3.connect(f"file:{name}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(copy)) as target,
        ):
            original.backup(target)
        name = str(copy)
    connection.settings_dict["NAME"] = name
    connection.ensure_connection()


@contextmanager
def _rolled_back() -> Iterator[None]:
    """Run the block in a transaction that is rolled back, in which `ctx.transaction()` may run."""
    block = transaction.atomic()
    # As in Django's TestCase: a durable block inside this one becomes a savepoint.
    vars(block)["_from_testcase"] = True
    with block:
        try:
            yield
        finally:
            transaction.set_rollback(True)


def _run(claim: Claim, seconds: float, scratch: Path) -> dict[str, Any]:
    logs, saved, first_child = LogLines(), SavedRows(), uuid7()
    watch_writes(connection.introspection.table_names())
    before = written_rows()
    logs.replace_handlers()
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(saved.watch())
        stack.enter_context(connection.execute_wrapper(run_statement))
        outgoing.block(scratch)
        outcome = _outcome_within(claim, seconds)
    ran = time.monotonic() - begun
    report = {
        **_described(outcome),
        "seconds": round(ran, 3),
        "calls": outgoing.CALLS.listed(),
        "steps": STEPS,
        "log": logs.lines,
        "writes": [],
        "children": [],
    }
    # A statement that failed was undone by itself, but Django has marked the whole transaction.
    transaction.set_rollback(False)
    try:
        report["writes"] = _writes(before, saved)
        if (completed := completed_result(claim)) is not None:
            # What a handler does after its own transaction changes nothing.
            report |= {"outcome": "completed", "result": redact_secrets(completed[0])}
        report["children"] = children_since(claim, first_child) + followers_since(
            claim, first_child, completed=report["outcome"] == "completed"
        )
    except DatabaseError:
        # The handler left the transaction aborted: nothing can be read in it.
        report["log"].append("The transaction was aborted, so its writes cannot be listed.")
    return report


def _outcome_within(claim: Claim, seconds: float) -> Outcome | None:
    """Run the handler and its on-commit callbacks; return None if `seconds` were not enough."""
    signal.signal(signal.SIGALRM, _time_out)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with calls_stay_on_this_thread():
            outcome = execute(
                claim,
                rng=SystemRandom(),
                signals=Signals(),
                run_async=run_on_this_thread,
                context=RehearsalContext,
            )
        _run_on_commit()
    except JobTimeout:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None if _timed_out else outcome


_timed_out: list[bool] = []


def _time_out(*_: Any) -> None:
    _timed_out.append(True)
    raise JobTimeout("the rehearsal's time is up")


def _run_on_commit() -> None:
    """Run what the handler's own transactions would have run after their commits."""
    callbacks = [entry[1] for entry in connection.run_on_commit]
    connection.run_on_commit = []
    for callback in callbacks:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - one callback must not hide the others
            outgoing.CALLS.add("callback", f"after the commit: {type(error).__name__}: {error}")


def _described(outcome: Outcome | None) -> dict[str, Any]:
    report: dict[str, Any] = {"result": None, "delay_seconds": None, "error": None}
    if outcome is None:
        message = (
            "the rehearsal's time was up before the handler ended; below is what it did until then"
        )
        return {**report, "outcome": UNFINISHED, "error": _error("JobTimeout", message)}
    report["outcome"] = OUTCOMES[type(outcome).__name__]
    match outcome:
        case Completed():
            result = json.loads(outcome.text) if outcome.text else outcome.result
            report["result"] = redact_secrets(result)
        case Retry() | DeadLettered():
            report["error"] = asdict(outcome.failure)
            report["delay_seconds"] = getattr(outcome, "delay_seconds", None)
        case _:
            fields = asdict(outcome)
            report["delay_seconds"] = fields.get("delay_seconds")
            message = fields.get("message") or fields.get("reason") or ""
            if message:
                report["error"] = _error("", message)
    return report


def _error(error_class: str, message: str) -> dict[str, str]:
    return {"error_class": error_class, "message": message, "traceback": "", "fingerprint": ""}


def _writes(before: Any, saved: SavedRows) -> list[dict[str, Any]]:
    """Return the tables written since `before`, with counts by kind and the ids of saved rows."""
    models = {model._meta.db_table: model._meta.verbose_name for model in apps.get_models()}
    found = []
    for table, counts in sorted(written_rows().items()):
        new = {kind: counts[kind] - before.get(table, {}).get(kind, 0) for kind in KINDS}
        if any(new.values()):
            name = str(models.get(table, ""))
            found.append({"table": table, "rows": name, **new, "ids": saved.of(table)})
    return found
