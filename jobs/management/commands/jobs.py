"""`manage.py jobs`: list, show, stats, why, run, enqueue, edit, retry, cancel, bulk."""

from __future__ import annotations

import json
from datetime import datetime

from django.template.defaultfilters import pluralize
from rich.table import Column

from interfaces.commands import JsonCommand
from interfaces.moments import iso
from interfaces.tables import printable
from jobs.engine.clock import database_now
from jobs.engine.redaction import redact_secrets
from jobs.management import arguments
from jobs.management.arguments import row_id
from jobs.management.inline import RUN
from jobs.management.job_operations import CHANGING, JOBS
from jobs.management.subcommand import CommandGroup, Options, Result, subcommand
from jobs.management.tables import (
    error_column,
    firm_of,
    first_line,
    job_cells,
    job_columns,
    wait_lines,
)
from jobs.models import Attempt, Batch, JobQueue, JobStep
from jobs.queries.durations import in_words, since_in_words
from jobs.queries.job_detail import JobDetails, details_of, progress_in_words
from jobs.queries.last_errors import (
    classes_of_last_errors,
    fetch_classes_of_last_errors,
    last_error,
)
from jobs.queries.lists import job_rows
from jobs.queries.search import FoundJobs, find_jobs
from jobs.queries.serializers.jobs import (
    JobDetailSerializer,
    WaitReasonSerializer,
)
from jobs.queries.serializers.stats import QueueStatsSerializer
from jobs.queries.stats import JobCounts, QueueStats, queue_stats
from jobs.queries.why_waiting import why_waiting
from jobs.states import Priority, Status

# Always shown; the other columns only where a category has a value for them.
_ALWAYS = ("Category", "Ready", "Running", "Done", "Dead")
_FILTERS = ("status", "category", "job_type", "limit_key", "correlation_id", "user", "held_back")
_ID = row_id("job")


def _rows(options: Options) -> FoundJobs:
    return find_jobs(
        job_rows().prefetch_related(classes_of_last_errors()),
        created_after=arguments.begin_of(options["since"]),
        search=options["search"],
        **{name: options[name] for name in _FILTERS},
    )


_list = JOBS.list(
    "List jobs, newest first.",
    arguments.STATUS,
    arguments.CATEGORY,
    arguments.TYPE,
    arguments.LIMIT_KEY,
    arguments.CORRELATION_ID,
    arguments.USER,
    arguments.HELD_BACK,
    arguments.CREATED_SINCE,
    arguments.SEARCH,
    rows=_rows,
    columns=job_columns,
    cells=job_cells,
    empty="No jobs.",
)


@subcommand("show", "Show one job: its times, payload, attempts, steps and children.", _ID)
def _show(options: Options) -> Result:
    details = details_of(JOBS.find(options))
    data = JobDetailSerializer(details).data
    return Result(data, lambda command: _print_details(command, details))


def _print_details(command: JsonCommand, details: JobDetails) -> None:
    job, now = details.job, database_now()
    batches = [("batch", _batch(one)) for one in details.batches]
    batches += [("callback of", f"{_batch(one.batch)}: {one.event}") for one in details.callback_of]
    command.facts(f"Job {job.job_id}", [*_facts(job, now), *batches])
    for reason in details.reasons:
        command.stdout.write(f"\nWaiting: {printable(reason.detail)}")
    _print_json(command, "Payload", job.payload)
    if job.result is not None:
        _print_json(command, "Result", job.result)
    if details.attempts:
        command.stdout.write("")
        ended, how = Column("Ended", no_wrap=True), Column("How", no_wrap=True)
        rows = [_attempt_cells(attempt, now) for attempt in details.attempts]
        columns: list[str | Column] = ["Series", "No", ended, how, error_column("Error")]
        command.table("Attempts that did not complete", columns, rows)
        if traceback := details.attempts[-1].traceback:
            command.stdout.write(f"\nTraceback of the last one\n{printable(traceback)}")
    if details.steps:
        command.stdout.write("")
        steps = [_step_cells(step, now) for step in details.steps]
        command.table("Steps", ["Name", "Finished", "Took"], steps)
    if details.log:
        command.stdout.write("")
        lines = [
            (since_in_words(one.at, now), one.number, printable(one.text)) for one in details.log
        ]
        command.table("Log", [Column("When", no_wrap=True), "Attempt", "Text"], lines)
    if details.children:
        command.stdout.write("")
        fetch_classes_of_last_errors(details.children)
        children = [job_cells(child, now) for child in details.children]
        command.table("Children", job_columns(), children)
    for then in details.then:
        command.stdout.write(f"\nThen: {printable(then.sentence)}")
    if details.dead_letter is not None:
        command.stdout.write(f"\nDead letter: {details.dead_letter.pk}")


def _batch(batch: Batch) -> str:
    return f"{batch.name} ({batch.pk})" if batch.name else str(batch.pk)


def _attempt_cells(attempt: Attempt, now: datetime) -> list[object]:
    error = first_line(": ".join(filter(None, (attempt.error_class, attempt.message)))) or None
    return [
        attempt.series,
        attempt.number,
        since_in_words(attempt.ended_at, now),
        attempt.end.replace("_", "-"),
        error,
    ]


def _step_cells(step: JobStep, now: datetime) -> list[object]:
    took = None if step.seconds is None else in_words(step.seconds)
    return [step.name, since_in_words(step.finished_at, now), took]


def _facts(job: JobQueue, now: datetime) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("status", job.status),
        ("type", f"{job.job_type} ({job.category}, payload {job.payload_version})"),
        ("firm", firm_of(job)),
        ("priority", Priority(job.priority).word),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("series", job.series if job.series > 1 else None),
        ("correlation id", job.correlation_id),
        ("parent", job.parent_id),
        ("lock key", job.lock_key),
        ("lock counted by", "all firms" if job.shares_lock else None),
        ("limit key", job.limit_key),
        ("limit units", job.limit_units if job.limit_units > 1 else None),
        ("idempotency key", job.idempotency_key),
        ("progress", progress_in_words(job)),
        ("last error", last_error(job)),
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


@subcommand(
    "stats", "Show counts by category and status, waits, throughput and failure rates.", reads=True
)
def _stats(_: Options) -> Result:
    stats = queue_stats()
    data = QueueStatsSerializer(stats).data
    return Result(data, lambda command: _print_stats(command, stats))


def _print_stats(command: JsonCommand, stats: QueueStats) -> None:
    totals, counts = stats.totals, stats.totals.statuses
    dead = counts[Status.DLQ]
    lines = [_line(category) for category in stats.categories if any(category.statuses.values())]
    if lines:
        names = [name for name in lines[0] if name in _ALWAYS or any(line[name] for line in lines)]
        columns = [
            Column(name, no_wrap=True, justify="left" if name == "Category" else "right")
            for name in names
        ]
        command.table("", columns, [[line[name] for name in names] for line in lines])
    if totals.all_held_back:
        parts = [f"{n} {code.words}" for code, n in totals.held_back.items() if n]
        command.stdout.write(f"Held back: {', '.join(parts)}.")
    command.stdout.write(
        f"{counts[Status.PENDING]} pending, {totals.in_flight} running, "
        f"{counts[Status.COMPLETED]} completed, {dead} dead letter{pluralize(dead)} open, "
        f"{stats.workers} live worker{pluralize(stats.workers)}. Rates are those of the last {stats.window_minutes} minutes."
    )


def _line(category: JobCounts) -> dict[str, object]:
    counts = category.statuses
    wait, rate = category.oldest_wait_seconds, category.failure_rate
    return {
        "Category": category.group,
        "Ready": category.runnable,
        "Running": category.in_flight,
        "Later": category.scheduled,
        "Held": category.all_held_back,
        "Done": counts[Status.COMPLETED],
        "Failed": counts[Status.FAILED],
        "Dead": counts[Status.DLQ],
        "Canceled": counts[Status.CANCELED],
        "Waits": None if wait is None else in_words(wait),
        "/min": f"{category.completed_per_minute:.1f}",
        "Fails": None if rate is None else f"{rate:.1%}",
    }


@subcommand("why", "Say why a job is not running.", _ID)
def _why(options: Options) -> Result:
    job = JOBS.find(options)
    reasons = why_waiting(job)
    nothing = "Nothing holds the job back: a worker will claim it in its turn."
    rows = WaitReasonSerializer(reasons, many=True).data
    data = {"job_id": str(job.job_id), "status": job.status, "why_waiting": rows}
    return Result(data, "\n".join(wait_lines(job, reasons, nothing=nothing)))


class Command(CommandGroup):
    """The queue's jobs."""

    help = "List and show jobs; enqueue, edit, run, retry and cancel them."
    subcommands = (_list, _show, _stats, _why, RUN, *CHANGING)
