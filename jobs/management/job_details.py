"""`manage.py jobs show`."""

from __future__ import annotations

import json
from datetime import datetime

from rich.table import Column

from interfaces.commands import JsonCommand, printable
from jobs.engine.clock import database_now
from jobs.engine.redaction import redact_secrets
from jobs.management.arguments import find_one, row_id
from jobs.management.subcommand import Options, Result, subcommand
from jobs.management.tables import error_column, first_line, job_cells, job_columns
from jobs.models import Attempt, JobQueue
from jobs.queries.durations import since_in_words
from jobs.queries.job_detail import JobDetails, details_of
from jobs.queries.serializers.fields import iso
from jobs.queries.serializers.jobs import JobDetailSerializer
from jobs.states import Priority


@subcommand(
    "show", "Show one job: its times, payload, attempts, steps and children.", row_id("job")
)
def show_job(options: Options) -> Result:
    """Return the job and all that belongs to it."""
    job = find_one(JobQueue.objects.select_related("firm"), "job", options["id"])
    details = details_of(job)
    data = JobDetailSerializer(details).data
    return Result(data, lambda command: _print_details(command, details))


def _print_details(command: JsonCommand, details: JobDetails) -> None:
    job, now = details.job, database_now()
    command.facts(f"Job {job.job_id}", _facts(job, now))
    for reason in details.reasons:
        command.stdout.write(f"\nWaiting: {printable(reason.detail)}")
    _print_json(command, "Payload", job.payload)
    if job.result is not None:
        _print_json(command, "Result", job.result)
    if details.attempts:
        command.stdout.write("")
        ended, how = Column("Ended", no_wrap=True), Column("How", no_wrap=True)
        rows = [_attempt_cells(attempt, now) for attempt in details.attempts]
        columns: list[str | Column] = ["No", ended, how, error_column("Error")]
        command.table("Attempts that did not complete", columns, rows)
    if details.steps:
        command.stdout.write("")
        steps = [(step.name, since_in_words(step.finished_at, now)) for step in details.steps]
        command.table("Steps", ["Name", "Finished"], steps)
    if details.children:
        command.stdout.write("")
        children = [job_cells(child, now) for child in details.children]
        command.table("Children", job_columns(), children)
    if details.dead_letter is not None:
        command.stdout.write(f"\nDead letter: {details.dead_letter.pk}")


def _attempt_cells(attempt: Attempt, now: datetime) -> list[object]:
    error = first_line(f"{attempt.error_class} {attempt.message}") or None
    return [attempt.number, since_in_words(attempt.ended_at, now), attempt.end, error]


def _facts(job: JobQueue, now: datetime) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("status", job.status),
        ("type", f"{job.job_type} ({job.category}, payload {job.payload_version})"),
        ("firm", job.firm.slug),
        ("priority", Priority(job.priority).name.lower()),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("correlation id", job.correlation_id),
        ("parent", job.parent_id),
        ("lock key", job.lock_key),
        ("idempotency key", job.idempotency_key),
        ("last error", job.last_error),
    ]
    moments = {
        "scheduled": job.scheduled_at,
        "created": job.created_at,
        "started": job.started_at,
        "completed": job.completed_at,
    }
    facts += [
        (name, f"{iso(moment)}, {since_in_words(moment, now)}")
        for name, moment in moments.items()
        if moment is not None
    ]
    return [(name, value) for name, value in facts if value not in (None, "")]


def _print_json(command: JsonCommand, title: str, value: object) -> None:
    text = json.dumps(redact_secrets(value), ensure_ascii=False, indent=2, default=str)
    command.stdout.write(f"\n{title}\n{printable(text)}")
