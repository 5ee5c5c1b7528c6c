"""A job's last error in words: its row has the text, the attempt that failed has the class."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, Prefetch, prefetch_related_objects

from jobs.engine.rescue import STALE
from jobs.models import Attempt, JobQueue
from jobs.states import AttemptEnd, Status

_FAILED_ATTEMPTS = "attempts_of_last_error"
# These ends are no errors, and do not change the error's text in the job's row.
_NO_ERRORS = (AttemptEnd.SNOOZED, AttemptEnd.RELEASED)


def classes_of_last_errors() -> Prefetch[str]:
    """Return a prefetch of the classes of many jobs' last errors, in one query."""
    attempts = Attempt.objects.filter(message=F("job__last_error")).exclude(error_class="")
    attempts = attempts.exclude(end__in=_NO_ERRORS).only("job_id", "error_class", "ended_at")
    return Prefetch("attempts_log", attempts.order_by("ended_at", "id"), to_attr=_FAILED_ATTEMPTS)


def fetch_classes_of_last_errors(jobs: Iterable[JobQueue]) -> None:
    """Fetch the classes of these jobs' last errors, in one query if there are any."""
    failed = [job for job in jobs if _may_have_failed(job)]
    if failed:
        prefetch_related_objects(failed, classes_of_last_errors())


def last_error(job: JobQueue) -> str:
    """Return the job's last error with the name of its class; "" if it has none.

    Without `classes_of_last_errors` it costs a query for each job.
    """
    if job.status == Status.COMPLETED:
        return ""
    if job.last_error == STALE.message:
        # The dead letter's words; the attempt's error says more about how the worker died.
        return error_in_words(STALE.error_class, STALE.message)
    if not _may_have_failed(job):
        return job.last_error
    if not hasattr(job, _FAILED_ATTEMPTS):
        prefetch_related_objects([job], classes_of_last_errors())
    # There is no class if no attempt had this error: a job can also expire.
    classes = [attempt.error_class for attempt in getattr(job, _FAILED_ATTEMPTS)]
    return error_in_words(classes[-1] if classes else "", job.last_error)


def _may_have_failed(job: JobQueue) -> bool:
    return job.status != Status.COMPLETED and (job.attempts > 0 or job.last_error != "")


def class_name(error_class: str) -> str:
    """Return the name of an error's class without its module, which would fill a list's column."""
    return error_class.rpartition(".")[2]


def error_in_words(error_class: str, message: str) -> str:
    """Return an error as lists show it; the page of its row has the whole path of the class."""
    return ": ".join(part for part in (class_name(error_class), message) if part)
