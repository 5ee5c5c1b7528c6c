"""A job's timeline: what happened to it and what is due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jobs.admin.base import LABELS
from jobs.models import Attempt, JobQueue
from jobs.queries.durations import in_words, since_in_words
from jobs.queries.job_detail import JobDetails
from jobs.states import TERMINAL, Resolution, Status

_ENDINGS: dict[str, str] = {
    Status.COMPLETED: "Completed",
    Status.FAILED: "Failed",
    Status.DLQ: "Dead-lettered",
    Status.CANCELED: "Canceled",
}
# A job due later than this after its creation was scheduled for later.
AT_ONCE_SECONDS = 1.0


@dataclass(frozen=True)
class Moment:
    """One event of the timeline; `tone` is one of Unfold's label variants."""

    at: datetime
    title: str
    tone: str = "default"
    detail: str = ""
    folded: str = ""
    # What a person wrote; `detail` is an error.
    note: str = ""


def timeline(details: JobDetails, now: datetime) -> list[Moment]:
    """Return the job's events, oldest first; future ones come last."""
    moments = [*_creation(details.job), *map(_attempt, details.attempts)]
    moments += [*_progress(details, now), *_resolution(details)]
    return sorted(moments, key=lambda moment: moment.at)


def headline(details: JobDetails, now: datetime) -> str:
    """Return the job's state in a sentence."""
    job, discarded_at = details.job, _discarded_at(details)
    if discarded_at is not None:
        return f"Discarded {since_in_words(discarded_at, now)}."
    if job.status == Status.PENDING:
        if job.scheduled_at > now:
            return f"Due {since_in_words(job.scheduled_at, now)}."
        return f"Due for {in_words((now - job.scheduled_at).total_seconds())}."
    if job.status in TERMINAL and job.completed_at is not None:
        ran = ""
        if job.started_at is not None and job.started_at <= job.completed_at:
            seconds = (job.completed_at - job.started_at).total_seconds()
            ran = f", after running {in_words(seconds)}"
        return f"{_ENDINGS[job.status]} {since_in_words(job.completed_at, now)}{ran}."
    if job.status == Status.PROCESSING and job.started_at is not None:
        return f"Running for {in_words((now - job.started_at).total_seconds())}."
    return "Claimed by a worker, about to start."


def _creation(job: JobQueue) -> Iterator[Moment]:
    yield Moment(job.created_at, "Enqueued" if job.parent_id is None else "Enqueued by its parent")
    if job.cancel_requested_at is not None:
        yield Moment(job.cancel_requested_at, "Cancel requested", "warning")


def _attempt(attempt: Attempt) -> Moment:
    ran = ""
    if attempt.started_at is not None:
        ran = f" after {in_words((attempt.ended_at - attempt.started_at).total_seconds())}"
    series = f", series {attempt.series}" if attempt.series > 1 else ""
    error = ": ".join(part for part in (attempt.error_class, attempt.message) if part)
    return Moment(
        at=attempt.ended_at,
        title=f"Attempt {attempt.number}{series} {attempt.end.replace('_', '-')}{ran}",
        tone=LABELS[attempt.end],
        detail=error,
        folded=attempt.traceback,
    )


def _progress(details: JobDetails, now: datetime) -> Iterator[Moment]:
    job = details.job
    if job.status == Status.PENDING:
        scheduled = (job.scheduled_at - job.created_at).total_seconds() > AT_ONCE_SECONDS
        if scheduled or job.scheduled_at > now:
            yield Moment(job.scheduled_at, "Due", "info")
        return
    if job.status == Status.CLAIMED and job.claimed_at is not None:
        yield Moment(job.claimed_at, f"Attempt {job.attempts} claimed by a worker", "primary")
    if job.status in (Status.PROCESSING, Status.COMPLETED) and job.started_at is not None:
        yield Moment(job.started_at, f"Attempt {job.attempts} started", "primary")
    if job.completed_at is not None:
        # A discard does not change `completed_at`, the time of the dead-lettering, and is an event
        # of its own.
        status = job.status if _discarded_at(details) is None else Status.DLQ
        # The attempt that ends a job is recorded a moment after the job's row.
        at = max([job.completed_at, *(attempt.ended_at for attempt in details.attempts[-1:])])
        yield Moment(at, _ENDINGS[status], LABELS[status])


def _discarded_at(details: JobDetails) -> datetime | None:
    """Return when the job failed by the discard of its dead letter; None if it ended otherwise."""
    job, letter = details.job, details.dead_letter
    if letter is None or letter.resolution != Resolution.DISCARDED:
        return None
    # A discarded job can be retried, and fail once more by itself.
    is_latest = letter.job_series == job.series and job.status == Status.FAILED
    return letter.reviewed_at if is_latest else None


def _resolution(details: JobDetails) -> Iterator[Moment]:
    letter = details.dead_letter
    if letter is None or letter.reviewed_at is None or not letter.resolution:
        return
    who = f" by {letter.reviewed_by.get_username()}" if letter.reviewed_by else ""
    fails = ", the job is failed" if _discarded_at(details) is not None else ""
    title = f"{letter.resolution.capitalize()}{who}{fails}"
    tone = "danger" if fails else "info"
    yield Moment(letter.reviewed_at, title, tone, note=letter.resolution_note)
