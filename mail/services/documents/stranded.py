"""Finds documents whose job is over: canceled, failed, or gone."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from jobs.models import JobQueue
from jobs.states import LIVE, Status
from mail.models import Document, DocumentStatus

UNFINISHED = (DocumentStatus.WAITING, DocumentStatus.FETCHED, DocumentStatus.SCANNED)
_WHY: dict[str | None, tuple[str, str]] = {
    Status.CANCELED: ("job_canceled", "Its job was canceled: retry it"),
    Status.FAILED: ("job_failed", "Its job failed: retry it"),
    Status.DLQ: ("job_dead_letter", "Its job is a dead letter: reprocess it"),
}
_GONE = ("job_gone", "Its job is over: it will not be read")


def with_job_status(documents: QuerySet[Any]) -> QuerySet[Any]:
    """Annotate each document with its job's status, as `job_status`; None if the job is gone."""
    job = JobQueue.objects.filter(pk=OuterRef("job_id")).values("status")
    marked: QuerySet[Any] = documents.annotate(job_status=Subquery(job))
    return marked


def why_not_read(document: Document) -> tuple[str, str]:
    """Return why the document was not read, or not wholly: a code and a text, both empty if it was.

    The document must come from `with_job_status`: a document that waits has a reason if its job is
    over.
    """
    if document.status not in UNFINISHED:
        return document.reason, document.get_reason_display()
    status = document.job_status  # type: ignore[attr-defined]  # annotated
    return ("", "") if status in LIVE else _WHY.get(status, _GONE)
