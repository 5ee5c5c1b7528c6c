"""Columns and cells of the tables that commands print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.core.exceptions import ObjectDoesNotExist
from rich.table import Column
from rich.text import Text

from interfaces.moments import iso
from interfaces.tables import printable
from jobs.models import DeadLetterQueue, JobQueue, Pause, RateLimit
from jobs.queries.durations import since_in_words
from jobs.queries.last_errors import last_error
from jobs.queries.why_waiting import WaitReason
from jobs.states import Status

ID_LENGTH = 36

_STATUS_STYLES: dict[str, str] = {
    Status.PENDING: "blue",
    Status.CLAIMED: "cyan",
    Status.PROCESSING: "cyan",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.DLQ: "bold red",
    Status.CANCELED: "dim",
}


def columns_of(noun: str, *names: str) -> list[Column]:
    """Return a column for the row's id and one for each name; none of them wraps."""
    return [id_column(noun), *(Column(name, no_wrap=True) for name in names)]


def id_column(heading: str) -> Column:
    """Return a column of ids. They are never cut, because neighbors differ only at the end."""
    return Column(heading, no_wrap=True, min_width=ID_LENGTH)


def error_column(heading: str) -> Column:
    """Return a column that fills the rest of the line."""
    return Column(heading, no_wrap=True, overflow="ellipsis", ratio=1)


def firm_of_limit(limit: Pause | RateLimit) -> str:
    """Return the cell of a limit's firm."""
    return "every firm" if limit.everywhere else limit.firm.slug


def first_line(text: str) -> str:
    """Return the first line of an error."""
    return printable(text.strip().partition("\n")[0])


def firm_of(row: JobQueue | DeadLetterQueue) -> str:
    """Return the slug of the row's firm, its id if the firm is gone."""
    try:
        return str(row.firm.slug)
    except ObjectDoesNotExist:
        return f"{row.firm_id} (gone)"


def job_columns() -> list[Column]:
    """Return the columns of a table of jobs."""
    names = ("Status", "Type", "Tries", "Age", "Firm")
    return [*columns_of("Job", *names), error_column("Last error")]


def job_cells(job: JobQueue, now: datetime) -> list[object]:
    """Return a row of a table of jobs."""
    return [
        job.job_id,
        Text(job.status, style=_STATUS_STYLES[job.status]),
        job.job_type,
        f"{job.attempts}/{job.max_attempts}",
        since_in_words(job.created_at, now),
        firm_of(job),
        first_line(last_error(job)) or None,
    ]


def wait_lines(job: JobQueue, reasons: Sequence[WaitReason], *, nothing: str) -> list[str]:
    """Return why a job does not run, and until when; `nothing` if it only waits for its turn."""
    lines = [
        printable(one.detail) + (f", until {iso(one.until)}" if one.until is not None else "")
        for one in reasons
    ]
    if job.status != Status.PENDING:
        return [f"It is not waiting: its status is {job.status}.", *lines]
    return lines or [nothing]
