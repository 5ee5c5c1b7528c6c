"""The tables of older systems: which column holds what, and what their statuses mean here."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.states import Status

# A finished job keeps no result with more characters of JSON.
MAX_RESULT_LENGTH = 65_536
# A payload may have 256 KiB; a longer one is refused, and not read to its end.
MAX_PAYLOAD_LENGTH = 262_144
MAX_ERROR_LENGTH = 8_192
# Columns that may hold much text, by role, and how much of it is read.
WIDE = {
    "payload": MAX_PAYLOAD_LENGTH,
    "args": MAX_PAYLOAD_LENGTH,
    "result": MAX_RESULT_LENGTH,
    "error": MAX_ERROR_LENGTH,
}
# The roles of columns that hold times.
TIMES = ("created", "due", "started", "ended", "updated", "expires")

_WAITING = dict.fromkeys(
    ("pending", "queued", "scheduled", "claimed", "processing", "running", "retry", "started",
     "received"), Status.PENDING,
)  # fmt: skip
_COMPLETED = dict.fromkeys(
    ("complete", "completed", "done", "success", "succeeded"), Status.COMPLETED
)
_FAILED = dict.fromkeys(("failed", "failure", "error", "dead", "dlq"), Status.FAILED)
_CANCELED = dict.fromkeys(
    ("canceled", "cancelled", "revoked", "rejected", "ignored"), Status.CANCELED
)
_SUCCESSES: Mapping[str, Status] = {
    **dict.fromkeys(("true", "1"), Status.COMPLETED),
    **dict.fromkeys(("false", "0"), Status.FAILED),
}
_STATUSES: Mapping[str, Status] = {**_WAITING, **_COMPLETED, **_FAILED, **_CANCELED}


class Unreadable(ValueError):
    """A value that cannot be read as data."""


def read_json(text: str) -> Any:
    """Return the value of JSON text.

    Raises:
        Unreadable: the text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable("is not JSON") from error


def read_celery(text: str) -> Any:
    """Return the arguments of a Celery task: JSON, or the JSON text of a Python literal.

    Only literals are read: nothing in them is called.

    Raises:
        Unreadable: the text is neither, for example because Celery truncated it.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise Unreadable("is neither JSON nor a literal of Python") from error


@dataclass(frozen=True)
class Shape:
    """A kind of table. `columns` lists for each role the names its column may have, best first."""

    name: str
    columns: Mapping[str, tuple[str, ...]]
    # None if payloads cannot be read, because they are pickled.
    read_payload: Callable[[str], Any] | None
    # Our status, by the column's value in lower case.
    statuses: Mapping[str, Status] = field(default_factory=lambda: _STATUSES)
    # The table's name, if the older system always uses the same one.
    table: str = ""
    # Whether columns with the names of payload fields belong to the payload.
    takes_columns: bool = False
    # A table of the same system with jobs that cannot be read.
    pickled_queue: str = ""

    def status_of(self, value: object) -> Status | None:
        """Return what a status of that system is here: pending, or how the job ended."""
        return self.statuses.get(str(value).strip().lower())


PER_TYPE = Shape(
    name="per_type",
    columns={
        "job_type": ("job_type",),
        "status": ("status", "state"),
        "payload": ("input", "payload", "input_data"),
        "result": ("output", "result", "result_summary"),
        "error": ("error", "error_message", "last_error"),
        "attempts": ("attempts", "retry_count"),
        "created": ("created_at",),
        "due": ("scheduled_for", "scheduled_at", "run_at"),
        "started": ("started_at", "processing_started_at"),
        "ended": ("completed_at", "finished_at", "failed_at"),
        "updated": ("updated_at",),
        "expires": ("expires_at",),
    },
    read_payload=read_json,
    takes_columns=True,
)
CELERY = Shape(
    name="django_celery_results",
    table="django_celery_results_taskresult",
    columns={
        "job_type": ("task_name",),
        "status": ("status",),
        "payload": ("task_kwargs",),
        "args": ("task_args",),
        "result": ("result",),
        "created": ("date_created",),
        "started": ("date_started",),
        "ended": ("date_done",),
    },
    read_payload=read_celery,
)
# Arguments and results are pickled there, and unpickling runs whatever code they name.
DJANGO_Q = Shape(
    name="django_q_task",
    table="django_q_task",
    columns={
        "job_type": ("func",),
        "status": ("success",),
        "attempts": ("attempt_count",),
        "created": ("started",),
        "started": ("started",),
        "ended": ("stopped",),
    },
    read_payload=None,
    statuses=_SUCCESSES,
    pickled_queue="django_q_ormq",
)
SHAPES = {shape.name: shape for shape in (PER_TYPE, CELERY, DJANGO_Q)}
