"""One job with its history, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.models import Attempt, DeadLetterQueue, JobQueue, JobStep
from jobs.models.ids import id_at
from jobs.queries.filters import CLOCK_MARGIN
from jobs.queries.lists import job_rows
from jobs.queries.why_waiting import WaitReason, why_waiting
from jobs.states import Status

ATTEMPTS_SHOWN = 200
CHILDREN_SHOWN = 100


@dataclass(frozen=True)
class JobDetails:
    """A job, its attempts and steps, its children, and why it is not running."""

    job: JobQueue
    attempts: Sequence[Attempt]
    steps: Sequence[JobStep]
    children: Sequence[JobQueue]
    dead_letter: DeadLetterQueue | None
    reasons: Sequence[WaitReason]


def details_of(job: JobQueue) -> JobDetails:
    """Return the job's details: at most the latest attempts and the first children."""
    mine = {"firm_id": job.firm_id, "job_id": job.job_id}
    latest = Attempt.objects.filter(**mine).order_by("-ended_at", "-id")[:ATTEMPTS_SHOWN]
    attempts = list(reversed(latest))
    dead_letters = DeadLetterQueue.objects.filter(firm_id=job.firm_id, original_job_id=job.job_id)
    return JobDetails(
        job=job,
        attempts=attempts,
        steps=list(JobStep.objects.filter(**mine)),
        children=_children_of(job, attempts),
        dead_letter=dead_letters.order_by("-job_series").first(),
        reasons=why_waiting(job),
    )


def _children_of(job: JobQueue, attempts: Sequence[Attempt]) -> list[JobQueue]:
    """Return the jobs this job's handler enqueued, oldest first.

    No index holds the parent: the search is bounded by the ids of the time in which the job ran.
    A pending job without attempts has none.
    """
    if job.status == Status.PENDING and not attempts:
        return []
    children = job_rows().filter(firm_id=job.firm_id, parent_id=job.job_id, job_id__gt=job.job_id)
    if job.completed_at is not None:
        children = children.filter(job_id__lt=id_at(job.completed_at + CLOCK_MARGIN))
    return list(children.order_by("job_id")[:CHILDREN_SHOWN])
