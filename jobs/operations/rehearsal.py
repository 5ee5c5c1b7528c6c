"""Rehearses a dead job: runs it, shows what it would do, and undoes it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from jobs import registry
from jobs.conf import isolated_memory_mb
from jobs.engine.requeue import Restart
from jobs.errors import WrongState
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations.dead_letters import checked_restart, difference
from jobs.operations.operation import By, audit, get_row, operation
from jobs.states import RETRYABLE

# The longest that a handler may run, unless its type's timeout is shorter.
MOST_SECONDS = 30.0
# Time for all but the handler: the process's start, on SQLite a copy of the database, the report.
START_SECONDS = 60.0
# Few, because each rehearsal keeps a thread of the web process waiting.
MOST_AT_ONCE = 2
# With this process's sys.path the child imports the same code, however this process was started.
START = (
    "import sys; sys.path[:] = sys.argv[1:]; import django; django.setup();"
    " from jobs.execution.rehearsal.child import main; main()"
)
EMPTY: dict[str, Any] = {
    "result": None,
    "delay_seconds": None,
    "seconds": None,
    "writes": [],
    "children": [],
    "calls": [],
    "steps": [],
    "log": [],
}

_slots = threading.BoundedSemaphore(MOST_AT_ONCE)


def rehearse(
    dead_letter: DeadLetterQueue | UUID | str,
    *,
    by: By = None,
    payload: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the dead letter's job as a reprocess would, undo it, and return what it did.

    It runs in a process of its own, in a transaction that is rolled back; calls to the outside are
    blocked and listed. `payload` is tried in place of the job's own. The rows that the job writes
    stay locked until it ends, at most MOST_SECONDS.

    Raises:
        UnknownJob: no such dead letter in scope.
        WrongState: the job is not over, or too many rehearsals run in this process.
        PayloadInvalid: the payload is refused.
    """
    letter, job, change = _checked(dead_letter, payload)
    if not _slots.acquire(blocking=False):
        raise WrongState(
            f"{MOST_AT_ONCE} rehearsals are running on this server already: wait until one ends"
        )
    try:
        report = _run(job, change)
    finally:
        _slots.release()
    _record(letter, job, change, report, by)
    return {"dead_letter_id": letter.pk, "job_id": job.pk, "job_type": job.job_type, **report}


@operation
def _checked(
    dead_letter: DeadLetterQueue | UUID | str, payload: Mapping[str, Any] | None
) -> tuple[DeadLetterQueue, JobQueue, Restart]:
    letter = get_row(DeadLetterQueue, dead_letter)
    job = get_row(JobQueue, letter.original_job_id)
    if job.status not in RETRYABLE:
        raise WrongState(f"job {job.pk} is not dead-lettered, failed or canceled")
    return letter, job, checked_restart(job, payload)


@operation
def _record(
    letter: DeadLetterQueue, job: JobQueue, change: Restart, report: Mapping[str, Any], by: By
) -> None:
    before, after = difference(job, change)
    outcome = {"outcome": report["outcome"], "seconds": report["seconds"]}
    audit("dead_letter.rehearse", letter, by, before=before, after={**outcome, **after})


def _run(job: JobQueue, change: Restart) -> dict[str, Any]:
    """Return the report of the process."""
    declared = registry.find(job.job_type)
    seconds = min(declared.timeout_seconds if declared else MOST_SECONDS, MOST_SECONDS)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as scratch:
        request = {
            "job_id": str(job.pk),
            "payload": change.payload,
            "payload_version": change.payload_version,
            "database": str(connection.settings_dict["NAME"]),
            "seconds": seconds,
            "scratch": scratch,
        }
        try:
            process = subprocess.run(  # noqa: S603 - our own command line
                [sys.executable, "-c", START, *sys.path],
                input=json.dumps(request).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=START_SECONDS + seconds,
                process_group=0,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _unfinished(
                f"the rehearsal's process was killed after {START_SECONDS + seconds:g} seconds"
            )
    try:
        report = {**EMPTY, **json.loads(process.stdout)}
    except ValueError:
        return _unfinished(
            f"the rehearsal's process ended with exit code {process.returncode}; its memory limit "
            f"is {isolated_memory_mb()} MB"
        )
    for child in report["children"]:
        due = child["scheduled_at"]
        child["scheduled_at"] = due and datetime.fromisoformat(due)
    return report


def _unfinished(message: str) -> dict[str, Any]:
    error = {"error_class": "ProcessDied", "message": message, "traceback": "", "fingerprint": ""}
    return {**EMPTY, "outcome": "unfinished", "error": error}
