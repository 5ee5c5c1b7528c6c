"""`manage.py jobs show ID`."""

from __future__ import annotations

import json
from datetime import datetime

from django.core.management.base import CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand, printable
from jobs.engine.database_time import database_now
from jobs.engine.redaction import redact_secrets
from jobs.management.subcommands.find import find_one
from jobs.management.subcommands.job_table import error_column, first_line, print_jobs
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import JobQueue
from jobs.queries.durations import since_in_words
from jobs.queries.job_detail import JobDetails, details_of
from jobs.queries.serializers.fields import iso
from jobs.queries.serializers.jobs import JobDetailSerializer
from jobs.states import Priority
from tenants.cli import command_scope


class ShowJob(Verb):
    """Shows one job."""

    name = "show"
    help = "Show one job: its times, payload, attempts, steps and children."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the job's id."""
        parser.add_argument("id", help="the job's id, or enough of its beginning")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print the job."""
        with command_scope(options["firm"]):
            job = find_one(JobQueue.objects.select_related("firm"), "job", options["id"])
            details = details_of(job)
            if options["json"]:
                command.emit(JobDetailSerializer(details).data)
            else:
                _print_details(command, details)


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
        command.table(
            "Attempts that did not complete",
            [
                "No",
                Column("Ended", no_wrap=True),
                Column("How", no_wrap=True),
                error_column("Error"),
            ],
            [
                (
                    attempt.number,
                    since_in_words(attempt.ended_at, now),
                    attempt.end,
                    first_line(f"{attempt.error_class} {attempt.message}") or None,
                )
                for attempt in details.attempts
            ],
        )
    if details.steps:
        command.stdout.write("")
        rows = [(step.name, since_in_words(step.finished_at, now)) for step in details.steps]
        command.table("Steps", ["Name", "Finished"], rows)
    if details.children:
        command.stdout.write("")
        print_jobs(command, "Children", details.children)
    if details.dead_letter is not None:
        command.stdout.write(f"\nDead letter: {details.dead_letter.pk}")


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
