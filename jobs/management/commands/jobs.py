"""`manage.py jobs`: list, show, stats, why, enqueue, retry, cancel."""

from __future__ import annotations

from django.core.management.base import CommandParser
from django.db.models import QuerySet

from interfaces.commands import printable
from jobs.management import arguments, tables
from jobs.management.arguments import argument, find_one, row_id
from jobs.management.job_details import show_job
from jobs.management.stats import show_stats
from jobs.management.subcommand import CommandGroup, Options, Result, list_subcommand, subcommand
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.queries.filters import filter_jobs
from jobs.queries.lists import job_rows
from jobs.queries.serializers.fields import iso
from jobs.queries.serializers.jobs import JobRowSerializer, WaitReasonSerializer
from jobs.queries.why_waiting import why_waiting
from jobs.queue import enqueue
from jobs.states import Status
from tenants.cli import operator


def _rows(options: Options) -> QuerySet[JobQueue]:
    return filter_jobs(
        job_rows(),
        status=options["status"],
        category=options["category"],
        job_type=options["job_type"],
        correlation_id=options["correlation_id"],
        created_after=options["since"],
    )


_list = list_subcommand(
    "List jobs, newest first.",
    argument("--status", choices=[status.value for status in Status]),
    arguments.CATEGORY,
    arguments.TYPE,
    argument("--correlation-id", metavar="ID"),
    argument(
        "--since",
        type=arguments.since,
        metavar="WHEN",
        help="created since: a time, or 30m, 6h, 2d",
    ),
    rows=_rows,
    serializer=JobRowSerializer,
    columns=tables.job_columns,
    cells=tables.job_cells,
    empty="No jobs.",
)


@subcommand("why", "Say why a job is not running.", row_id("job"))
def _why(options: Options) -> Result:
    job = find_one(JobQueue.objects.select_related("firm"), "job", options["id"])
    reasons = why_waiting(job)
    lines = [
        printable(one.detail) + (f", until {iso(one.until)}" if one.until is not None else "")
        for one in reasons
    ]
    if job.status != Status.PENDING:
        lines.insert(0, f"It is not waiting: its status is {job.status}.")
    elif not reasons:
        lines = ["Nothing is in its way: a worker will take it in its turn."]
    rows = WaitReasonSerializer(reasons, many=True).data
    data = {"job_id": str(job.job_id), "status": job.status, "why_waiting": rows}
    return Result(data, "\n".join(lines))


def _start(parser: CommandParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--at", type=arguments.moment, metavar="ISO", help="not before this time")
    group.add_argument(
        "--delay", type=arguments.seconds, metavar="S", help="not before S seconds from now"
    )


@subcommand(
    "enqueue",
    "Enqueue a job; without --firm it belongs to the only firm there is.",
    argument("type", help="the job type"),
    argument("--payload", type=arguments.json_object, default={}, metavar="JSON"),
    _start,
    arguments.PRIORITY,
    argument("--idempotency-key", metavar="K"),
)
def _enqueue(options: Options) -> Result:
    result = enqueue(
        options["type"],
        options["payload"],
        firm=options["firm"],
        at=options["at"],
        delay=options["delay"],
        priority=options["priority"],
        idempotency_key=options["idempotency_key"],
    )
    job = JobQueue.objects.select_related("firm").get(pk=result.job_id)
    text = f"Enqueued {job.job_type} {job.job_id}."
    if not result.created:
        text = f"{job.job_type} {job.job_id} has this key already: {job.status}."
    return Result({**JobRowSerializer(job).data, "created": result.created}, text)


@subcommand(
    "retry",
    "Send a dead, failed or canceled job round again; its attempts start over.",
    row_id("job"),
    arguments.REASON,
)
def _retry(options: Options) -> Result:
    job = find_one(JobQueue.objects.all(), "job", options["id"])
    job = jobs.retry(job, by=operator(), reason=options["reason"])
    text = f"{job.job_type} {job.job_id} is {job.status} again (series {job.series})."
    return Result(JobRowSerializer(job).data, text)


@subcommand(
    "cancel",
    "Cancel a pending job at once; ask a running one to stop.",
    row_id("job"),
    arguments.REASON,
)
def _cancel(options: Options) -> Result:
    job = find_one(JobQueue.objects.all(), "job", options["id"])
    job = jobs.cancel(job, by=operator(), reason=options["reason"])
    asked = "" if job.status == Status.CANCELED else " and was asked to stop"
    return Result(
        JobRowSerializer(job).data, f"{job.job_type} {job.job_id} is {job.status}{asked}."
    )


class Command(CommandGroup):
    """The queue's jobs."""

    help = "Look at jobs; enqueue, retry and cancel them."
    subcommands = (_list, show_job, show_stats, _why, _enqueue, _retry, _cancel)
