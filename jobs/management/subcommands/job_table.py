"""Jobs as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column
from rich.text import Text

from interfaces.commands import JsonCommand, printable
from jobs.engine.database_time import database_now
from jobs.management.subcommands.find import id_column
from jobs.models import JobQueue
from jobs.queries.durations import since_in_words
from jobs.states import Status

_COLUMNS = ("Status", "Type", "Tries", "Age", "Firm")

_STATUS_STYLES: dict[str, str] = {
    Status.PENDING: "blue",
    Status.CLAIMED: "cyan",
    Status.PROCESSING: "cyan",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.DLQ: "bold red",
    Status.CANCELED: "dim",
}


def status_text(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=_STATUS_STYLES[status])


def first_line(text: str) -> str:
    """Return the first line of an error."""
    return printable(text.strip().partition("\n")[0])


def error_column(heading: str) -> Column:
    """Return a column that takes what the others leave of the line."""
    return Column(heading, no_wrap=True, overflow="ellipsis", ratio=1)


def print_jobs(command: JsonCommand, title: str, jobs: Sequence[JobQueue]) -> None:
    """Print jobs."""
    now = database_now()
    columns = [
        id_column("Job"),
        *(Column(name, no_wrap=True) for name in _COLUMNS),
        error_column("Last error"),
    ]
    rows = [
        (
            job.job_id,
            status_text(job.status),
            job.job_type,
            f"{job.attempts}/{job.max_attempts}",
            since_in_words(job.created_at, now),
            job.firm.slug,
            first_line(job.last_error) or None,
        )
        for job in jobs
    ]
    command.table(title, columns, rows)
