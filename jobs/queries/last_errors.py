"""A job's last error in words: its row has the text, the attempt that failed has the class."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import (
    F,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    prefetch_related_objects,
)
from django.db.models.functions import Concat
from django.db.models.lookups import IsNull

from jobs.engine.rescue import STALE
from jobs.models import Attempt, JobQueue
from jobs.states import AttemptEnd, Status

_FAILED_ATTEMPTS = "attempts_of_last_error"
# These ends are no errors, and do not change the error's text in the job's row.
_NO_ERRORS = (AttemptEnd.SNOOZED, AttemptEnd.RELEASED)


def with_last_error(text: str) -> Q:
    """Return the condition that a job's last error has this text, in any case.

    The text is looked for in the error's message, and in that after the path of its class.
    """
    found = Q(last_error__icontains=text)
    if text.lower() in f"{STALE.error_class}: {STALE.message}".lower():
        found |= Q(last_error=STALE.message)
    attempts = _attempts_with(OuterRef("last_error")).filter(
        firm_id=OuterRef("firm_id"), job_id=OuterRef("pk")
    )
    attempts = attempts.annotate(said=error_text("message")).filter(said__icontains=text)
    # Not EXISTS: PostgreSQL would read all attempts first.
    one = Subquery(attempts.order_by().values("pk")[:1])
    # No attempts are looked up for what cannot have failed (`_may_have_failed`).
    has_class = (Q(attempts__gt=0) | ~Q(last_error="")) & Q(IsNull(one, False))  # noqa: FBT003 - Django's
    return ~Q(status=Status.COMPLETED) & (found | has_class)


def error_text(message: str) -> Concat:
    """Return the error of a row as a text, for which it has the class and, in this column, the message."""
    return Concat("error_class", Value(": "), message, output_field=TextField())


def _attempts_with(message: F | OuterRef) -> QuerySet[Attempt]:
    """Return the attempts that ended with an error of this message."""
    attempts: QuerySet[Attempt] = Attempt.objects.filter(message=message)
    return attempts.exclude(error_class="").exclude(end__in=_NO_ERRORS)


def classes_of_last_errors() -> Prefetch[str]:
    """Return a prefetch of the classes of many jobs' last errors, in one query."""
    attempts = _attempts_with(F("job__last_error")).only("job_id", "error_class", "ended_at")
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
