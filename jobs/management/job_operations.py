"""The subcommands of `manage.py jobs` that change something."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import datetime
from typing import Any, Literal

from django.core.management.base import CommandParser

from interfaces.commands import nonempty
from interfaces.moments import iso
from jobs.engine.enqueue import EnqueueResult
from jobs.engine.new_job import EnqueueSpec
from jobs.management import arguments
from jobs.management.arguments import argument, row_ids
from jobs.management.bulk import bulk_subcommand
from jobs.management.subcommand import Options, Resource, Result, subcommand
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.operations.edit import edit
from jobs.operations.enqueue import enqueue, enqueue_chain, holder_is_deleted
from jobs.queries.serializers.jobs import JobRowSerializer
from jobs.states import BulkOperation, OnConflict, Priority, Status
from tenants.cli import operator

JOBS = Resource("job", lambda: JobQueue.objects.prefetch_related("firm"), JobRowSerializer)
_IDS = row_ids("job")


def _start(parser: CommandParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--at", type=arguments.moment, metavar="ISO", help="the job does not start before this time"
    )
    group.add_argument(
        "--delay", type=arguments.seconds, metavar="S", help="the job does not start for S seconds"
    )


@subcommand(
    "enqueue",
    "Enqueue a job. Without --firm it belongs to the only firm, if there is just one.",
    argument("type", help="the job type"),
    argument(
        "--payload",
        type=arguments.json_object,
        default={},
        metavar="JSON",
        help='a JSON object such as \'{"name": "Ada"}\'',
    ),
    _start,
    arguments.PRIORITY,
    argument("--idempotency-key", metavar="K"),
    argument(
        "--unique-for",
        type=arguments.seconds,
        metavar="S",
        help="the key stays taken for S seconds, even after the job is over; without this, while "
        "the job is live",
    ),
    argument(
        "--on-conflict",
        choices=[word.value for word in OnConflict],
        help="for a job that has the key and has not begun: replace its payload and options; "
        "debounce: its time, too",
    ),
    argument(
        "--max-wait",
        type=arguments.seconds,
        metavar="S",
        help="a debounced job is due at the latest S seconds after it was first enqueued",
    ),
    arguments.REASON,
    firm_help="the firm that the job belongs to; required if there are several",
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
        unique_for=options["unique_for"],
        on_conflict=options["on_conflict"],
        max_wait=options["max_wait"],
        reason=options["reason"],
        by=operator(),
    )
    job = _stored(result)
    text = f"Enqueued {job.job_type} {job.job_id}."
    if result.replaced:
        text = (
            f"{job.job_type} {job.job_id} already had this key and was replaced; it is due "
            f"{iso(job.scheduled_at)}."
        )
    elif not result.created:
        text = (
            f"{job.job_type} {job.job_id} already has this key; it is {job.status}. Nothing was "
            "enqueued."
        )
    said = {"created": result.created}
    if options["on_conflict"] is not None:
        said["replaced"] = result.replaced
    return Result({**JobRowSerializer(job).data, **said}, text)


def _stored(result: EnqueueResult) -> JobQueue:
    """Return the job that was stored, or the one that has its key."""
    job: JobQueue | None = JOBS.rows().filter(pk=result.job_id).first()
    if job is None:
        raise holder_is_deleted(result)
    return job


# The fields of each job that `jobs chain` accepts, and their types.
_LINK: dict[str, type | tuple[type, ...]] = {
    "job_type": str,
    "payload": dict,
    "delay": (int, float),
    "priority": int,
    "max_attempts": int,
    "idempotency_key": str,
}


def _links(text: str) -> list[EnqueueSpec]:
    """Read the jobs of a chain."""
    links = arguments.json_object(f'{{"jobs": {text}}}')["jobs"]
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        raise ArgumentTypeError('a JSON list such as \'[{"job_type": "greet"}]\'')
    for place, link in enumerate(links):
        for name, value in link.items():
            known = _LINK.get(name)
            if known is None:
                raise ArgumentTypeError(
                    f"job {place}: {name!r} is unknown; known are {', '.join(_LINK)}"
                )
            if not isinstance(value, known) or isinstance(value, bool):
                raise ArgumentTypeError(f"job {place}: {name} has another type")
        if "job_type" not in link:
            raise ArgumentTypeError(f"job {place}: job_type is missing")
    return [EnqueueSpec(**link) for link in links]


@subcommand(
    "chain",
    "Enqueue jobs that run one after the other, each when the one before it is completed.",
    argument(
        "jobs", type=_links, metavar="JSON", help=f"a list of objects with {', '.join(_LINK)}"
    ),
    arguments.REASON,
    firm_help="the firm that the jobs belong to; required if there are several",
)
def _chain(options: Options) -> Result:
    specs = options["jobs"]
    result = enqueue_chain(specs, firm=options["firm"], reason=options["reason"], by=operator())
    job = _stored(result)
    text = (
        f"{job.job_type} {job.job_id} already has this key; it is {job.status}. Nothing was "
        "enqueued."
    )
    if result.created:
        then = ", then ".join(spec.job_type for spec in specs[1:])
        text = f"Enqueued {job.job_type} {job.job_id}{f', then {then}' if then else ''}."
    return Result({**JobRowSerializer(job).data, "created": result.created}, text)


def _edit_job(
    job: JobQueue,
    *,
    at: datetime | Literal["now"] | None,
    payload: dict[str, Any] | None,
    **options: Any,
) -> JobQueue:
    scheduled_at = None if at == "now" else at
    return edit(job, scheduled_at=scheduled_at, run_now=at == "now", payload=payload, **options)


_edit = JOBS.operation(
    "edit",
    "Change a pending job before a worker claims it.",
    _IDS,
    arguments.PRIORITY,
    argument(
        "--at",
        type=arguments.moment_or_now,
        metavar="WHEN",
        help="the job does not start before this time; now: as soon as a worker is free",
    ),
    argument(
        "--payload",
        type=arguments.json_object,
        metavar="JSON",
        help="the whole payload, instead of its own",
    ),
    arguments.REASON,
    operate=_edit_job,
    takes=("priority", "at", "payload", "reason"),
    text=lambda job: (
        f"{job.job_type} {job.job_id} has priority {Priority(job.priority).word} and is"
        f" due {iso(job.scheduled_at)}."
    ),
)


_retry = JOBS.operation(
    "retry",
    (
        "Return a dead, failed or canceled job to the queue with its payload unchanged. Its "
        "attempts start from zero."
    ),
    _IDS,
    arguments.REASON,
    operate=jobs.retry,
    text=lambda job: f"{job.job_type} {job.job_id} is {job.status} again (series {job.series}).",
)


def _canceled(job: JobQueue) -> str:
    asked = "" if job.status == Status.CANCELED else " and was asked to stop"
    return f"{job.job_type} {job.job_id} is {job.status}{asked}."


_cancel = JOBS.operation(
    "cancel",
    "Cancel a pending job at once; ask a running one to stop at its next checkpoint.",
    _IDS,
    arguments.REASON,
    operate=jobs.cancel,
    text=_canceled,
)


_bulk = bulk_subcommand(
    [BulkOperation.RETRY, BulkOperation.CANCEL, BulkOperation.SET_PRIORITY],
    "job",
    {
        "status": "status",
        "category": "category",
        "job_type": "job_type",
        "limit_key": "limit_key",
        "correlation_id": "correlation_id",
        "user": "user",
        "held_back": "held_back",
        "since": "created_after",
        "error": "error",
        "search": "search",
    },
    arguments.STATUS,
    arguments.CATEGORY,
    arguments.TYPE,
    arguments.LIMIT_KEY,
    arguments.CORRELATION_ID,
    arguments.USER,
    arguments.HELD_BACK,
    arguments.CREATED_SINCE,
    argument("--error", type=nonempty, metavar="TEXT", help="text in the last error"),
    arguments.SEARCH,
    arguments.PRIORITY,
)


CHANGING = (_enqueue, _chain, _edit, _retry, _cancel, _bulk)
