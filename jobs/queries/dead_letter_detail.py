"""What a dead letter's page shows: the attempts that failed, and others with the same failure."""

from __future__ import annotations

from django.db.models import QuerySet

from jobs.models import Attempt, DeadLetterQueue
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB

SAME_FAILURE_SHOWN = 10


def is_of_an_earlier_series(letter: DeadLetterQueue) -> bool:
    """Say whether the job was run again since: then its row no longer describes this failure."""
    return letter.original_job.series != letter.job_series


def attempts_made(letter: DeadLetterQueue) -> str:
    """Return how many attempts the letter's series took; "" if that is no longer known."""
    job = letter.original_job
    if not is_of_an_earlier_series(letter):
        return f"{job.attempts} of {job.max_attempts}"
    last = _attempts(letter).first()
    return str(last.number) if last else ""


def last_traceback(letter: DeadLetterQueue) -> str:
    """Return the traceback of the last attempt that left one."""
    last = _attempts(letter).exclude(traceback="").first()
    return str(last.traceback) if last else ""


def same_failure(letter: DeadLetterQueue) -> list[DeadLetterQueue]:
    """Return the newest other dead letters of the firm with its fingerprint."""
    if not letter.fingerprint:
        return []
    others = DeadLetterQueue.objects.filter(
        firm_id=letter.firm_id, fingerprint=letter.fingerprint
    ).exclude(pk=letter.pk)
    others = others.select_related("original_job").defer(*LARGE_COLUMNS_OF_JOB)
    return list(others.order_by("-id")[:SAME_FAILURE_SHOWN])


def _attempts(letter: DeadLetterQueue) -> QuerySet[Attempt]:
    """Return the attempts of the letter's series, the last one first."""
    attempts = Attempt.objects.filter(
        firm_id=letter.firm_id, job_id=letter.original_job_id, series=letter.job_series
    )
    return attempts.order_by("-ended_at", "-id")
