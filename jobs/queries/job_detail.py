"""One job with its history, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from jobs.models import (
    Attempt,
    AttemptLog,
    Batch,
    BatchMember,
    DeadLetterQueue,
    FanIn,
    FanInMember,
    JobQueue,
    JobStep,
)
from jobs.models.base import id_at
from jobs.queries.filters import CLOCK_MARGIN
from jobs.queries.last_errors import fetch_classes_of_last_errors, last_error
from jobs.queries.lists import FIRM, LARGE_COLUMNS
from jobs.queries.why_waiting import WaitReason, why_waiting
from jobs.states import Status

ATTEMPTS_SHOWN = 200
CHILDREN_SHOWN = 100
THEN_SHOWN = 20
BATCHES_SHOWN = 20
LOGS_SHOWN = 10
TREE_READ = 4_000
TREE_SHOWN = 100
MOST_ANCESTORS = 20
# The events of a batch that enqueue a job.
_CALLBACKS = {
    "failed": "at the first failure",
    "settled": "when all jobs were settled",
    "completed": "when all jobs were completed",
}


def progress_in_words(job: JobQueue) -> str | None:
    """Return the progress that the handler reported, and its note; None if it reported none."""
    return None if job.progress is None else f"{job.progress:.0%} {job.progress_note}".strip()


@dataclass(frozen=True)
class Then:
    """Jobs that are enqueued later, one after the other, when others are completed or settled."""

    job_types: Sequence[str]
    only_completed: bool
    waits_for: int

    @property
    def sentence(self) -> str:
        """Which jobs follow, and after what."""
        others = "this job is" if self.waits_for == 1 else f"{self.waits_for} jobs are"
        ended = "completed" if self.only_completed else "settled"
        return f"{', then '.join(self.job_types)} when {others} {ended}"


@dataclass(frozen=True)
class CallbackOf:
    """A batch that enqueued the job, and the event on which it did."""

    batch: Batch
    event: str

    @property
    def sentence(self) -> str:
        """The event in words; the batch's name completes the sentence."""
        return f"Enqueued {_CALLBACKS[self.event]} in the batch"


@dataclass(frozen=True)
class LogLine:
    """What a handler noted with `ctx.log`, and in which attempt."""

    series: int
    number: int
    at: datetime
    text: str


@dataclass(frozen=True)
class JobDetails:
    """A job with its attempts, steps, log, children and batches, what follows it, why it waits.

    `batches` are those that the job belongs to, `callback_of` those that enqueued it.
    """

    job: JobQueue
    attempts: Sequence[Attempt]
    steps: Sequence[JobStep]
    log: Sequence[LogLine]
    children: Sequence[JobQueue]
    then: Sequence[Then]
    batches: Sequence[Batch]
    callback_of: Sequence[CallbackOf]
    dead_letter: DeadLetterQueue | None
    reasons: Sequence[WaitReason]


def _rows() -> QuerySet[JobQueue]:
    """Return the jobs in scope as a list shows them; for few jobs, so the firm is joined."""
    rows: QuerySet[JobQueue] = JobQueue.objects.select_related(FIRM)
    return rows.defer(*LARGE_COLUMNS)


def details_of(job: JobQueue) -> JobDetails:
    """Return the job's details: at most the latest attempts and the first children."""
    mine = {"firm_id": job.firm_id, "job_id": job.job_id}
    latest = Attempt.objects.filter(**mine).order_by("-ended_at", "-id")[:ATTEMPTS_SHOWN]
    attempts = list(reversed(latest))
    dead_letters = DeadLetterQueue.objects.filter(firm_id=job.firm_id, original_job_id=job.job_id)
    batches, callback_of = _batches_of(job)
    return JobDetails(
        job=job,
        attempts=attempts,
        steps=list(JobStep.objects.filter(**mine)),
        log=_log(job),
        children=_children_of(job, attempts),
        then=_then(job),
        batches=batches,
        callback_of=callback_of,
        dead_letter=dead_letters.order_by("-job_series").first(),
        reasons=why_waiting(job),
    )


def _log(job: JobQueue) -> list[LogLine]:
    """Return what handlers noted in the latest attempts."""
    logs = AttemptLog.objects.filter(firm_id=job.firm_id, job_id=job.job_id).order_by("-id")
    return [
        LogLine(log.series, log.number, datetime.fromisoformat(at), text)
        for log in reversed(logs[:LOGS_SHOWN])
        for at, text in log.lines
    ]


def _then(job: JobQueue) -> list[Then]:
    """Return the jobs that wait for this one, and those that wait for its children."""
    mine = FanInMember.objects.filter(firm_id=job.firm_id, job_id=job.job_id)
    waiting = FanIn.objects.filter(
        Q(parent_id=job.job_id) | Q(pk__in=mine.values("fan_in_id")),
        firm_id=job.firm_id,
        fired_at__isnull=True,
    )
    waits_for = Coalesce(
        Subquery(
            FanInMember.objects.filter(firm_id=job.firm_id, fan_in_id=OuterRef("pk"))
            .order_by()
            .values("fan_in_id")
            .annotate(members=Count("pk"))
            .values("members")
        ),
        0,
    )
    return [
        Then(
            [one.job_type, *(link["job_type"] for link in one.rest)],
            one.only_completed,
            one.waits_for,
        )
        for one in waiting.annotate(waits_for=waits_for).order_by("pk")[:THEN_SHOWN]
    ]


def _batches_of(job: JobQueue) -> tuple[list[Batch], list[CallbackOf]]:
    """Return the batches that the job belongs to, and those that enqueued it, in one query.

    There may be several, because each enqueue with the job's idempotency key returns this job.
    """
    mine = BatchMember.objects.filter(firm_id=job.firm_id, job_id=job.job_id)
    is_its = Q()
    for event in _CALLBACKS:
        is_its |= Q(**{f"{event}_job_id": job.job_id})
    batches = Batch.objects.filter(firm_id=job.firm_id).defer("callbacks")
    of = batches.filter(pk__in=mine.values("batch_id")).annotate(is_of=Value(1))
    calling: Any = batches.filter(is_its).annotate(is_of=Value(0))
    found: list[Any] = list(of.union(calling, all=True).order_by("pk")[: 2 * BATCHES_SHOWN])
    callbacks = [
        CallbackOf(batch, event)
        for batch in found
        for event in _CALLBACKS
        if not batch.is_of and getattr(batch, f"{event}_job_id") == job.job_id
    ]
    return [batch for batch in found if batch.is_of], callbacks


def _children_of(job: JobQueue, attempts: Sequence[Attempt]) -> list[JobQueue]:
    """Return the jobs this job's handler enqueued, oldest first.

    No index has the parent, so the search is limited to ids of the time in which the job ran.
    A pending job without attempts has none.
    """
    if job.status == Status.PENDING and not attempts:
        return []
    children = _rows().filter(firm_id=job.firm_id, parent_id=job.job_id, job_id__gt=job.job_id)
    if job.completed_at is not None:
        children = children.filter(job_id__lt=id_at(job.completed_at + CLOCK_MARGIN))
    return list(children.order_by("job_id")[:CHILDREN_SHOWN])


@dataclass(frozen=True)
class TreeJob:
    """A job of a correlation tree, and how deep below its topmost ancestor it is."""

    job: JobQueue
    depth: int

    @property
    def error(self) -> str:
        """The job's last error, with its class."""
        return last_error(self.job)


def correlation_tree(details: JobDetails) -> list[TreeJob]:
    """Return the job, its ancestors, its children and others with its correlation id.

    Parents come before their children. No index holds the correlation id: of the firm's jobs since
    the oldest ancestor, the first `TREE_READ` are read, and `TREE_SHOWN` of them at most are shown.
    """
    job = details.job
    family = {one.pk: one for one in (*_ancestors_of(job), *details.children, job)}
    since = _rows().filter(firm_id=job.firm_id, job_id__gte=min(family)).order_by("job_id")
    # In a query of its own: under row level security a subquery would be no bound of an index scan.
    ends = list(since.values_list("job_id", flat=True)[TREE_READ : TREE_READ + 1])
    read = since.filter(job_id__lt=ends[0]) if ends else since
    for one in read.filter(correlation_id=job.correlation_id)[:TREE_SHOWN]:
        family.setdefault(one.pk, one)
    children: dict[UUID | None, list[JobQueue]] = defaultdict(list)
    for one in sorted(family.values(), key=lambda one: one.pk):
        children[one.parent_id if one.parent_id in family else None].append(one)
    tree = []
    left = [TreeJob(one, 0) for one in reversed(children[None])]
    while left:
        node = left.pop()
        tree.append(node)
        left += [TreeJob(one, node.depth + 1) for one in reversed(children[node.job.pk])]
    fetch_classes_of_last_errors(one.job for one in tree)
    return tree


def _ancestors_of(job: JobQueue) -> Iterator[JobQueue]:
    for _ in range(MOST_ANCESTORS):
        if job.parent_id is None:
            return
        parent = _rows().filter(firm_id=job.firm_id, job_id=job.parent_id).first()
        if parent is None:
            return
        yield parent
        job = parent
