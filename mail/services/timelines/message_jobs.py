"""Finds the jobs that have to do with one message."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from django.db.models import Q

from jobs.models import JobQueue
from jobs.models.base import id_at
from jobs.queries.filters import CLOCK_MARGIN
from jobs.queries.lists import job_rows
from mail.models import Message

# How many of the firm's jobs since the message came are searched, and how many are returned.
JOBS_SEARCHED = 20_000
MOST_FOUND = 200
MOST_ANCESTORS = 20
# The payload fields in which a job may name the message or one of its rows.
_NAMES = ("message_id", "gmail_message_id", "action_id", "original_action_id", "outbound_id")


def jobs_of(
    message: Message,
    *,
    named: Collection[UUID],
    row_ids: Collection[UUID],
    correlation_ids: Collection[str],
) -> Iterable[JobQueue]:
    """Return the named jobs, their ancestors, and jobs about the message or one of the rows."""
    jobs = {job.pk: job for job in _jobs_about(message, row_ids, correlation_ids)}
    wanted = set(named)
    for _ in range(MOST_ANCESTORS):
        wanted |= {job.parent_id for job in jobs.values() if job.parent_id is not None}
        missing = wanted - jobs.keys()
        found = list(job_rows().filter(firm_id=message.firm_id, pk__in=missing))
        if not found:
            break
        jobs |= {job.pk: job for job in found}
    return jobs.values()


def _jobs_about(
    message: Message, row_ids: Collection[UUID], correlation_ids: Collection[str]
) -> Iterable[JobQueue]:
    """Return the jobs with these correlation ids that name the message in their payloads.

    No index holds the correlation id, so the firm's first jobs since the message came are read.
    """
    if not correlation_ids:
        return ()
    since = job_rows().filter(
        firm_id=message.firm_id, pk__gte=id_at(message.created_at - CLOCK_MARGIN)
    )
    last = since.order_by("pk").values_list("pk", flat=True)[JOBS_SEARCHED : JOBS_SEARCHED + 1]
    end = next(iter(last), None)
    if end is not None:
        since = since.filter(pk__lt=end)
    ids = {str(message.pk), message.gmail_message_id, *map(str, row_ids)}
    names_it = Q()
    for name in _NAMES:
        names_it |= Q(**{f"payload__{name}__in": sorted(ids)})
    related = since.filter(names_it, correlation_id__in=correlation_ids)
    return list(related.order_by("pk")[:MOST_FOUND])
