"""The filters of the lists, which REST, the command line and the admin share."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import F, Model, Q, QuerySet, TextField
from django.db.models.functions import Cast

from jobs.engine.clock import database_now
from jobs.errors import Fault, FilterInvalid
from jobs.models import ConcurrencyLock, DeadLetterQueue, Delivery, JobQueue, Worker
from jobs.models.base import id_at
from jobs.models.limits import JOB_HOLDER
from jobs.queries.held_back import limits_in_force
from jobs.queries.last_errors import error_text, with_last_error
from jobs.states import LIVE, OPEN_RESOLUTIONS, LockKind, Status, WorkerState
from tenants.models import AuditEntry, Membership
from tenants.scope import require_scope
from tenants.users import find_users

# How far an id's time, from the clock of the enqueuing machine, may be from the database's
# created_at.
CLOCK_MARGIN = timedelta(minutes=5)
# The filter for dead letters without a decision, escalated ones included.
OPEN = "open"
# Begins a search of dead letters by a text of the error.
ERROR = "error:"
UNKNOWN_USER = "there is no such user"
M = TypeVar("M", bound=Model)
_HEX = re.compile(r"[0-9a-f]{1,32}\Z")


def filter_jobs(
    jobs: QuerySet[JobQueue],
    *,
    status: str | None = None,
    category: str | None = None,
    job_type: str | None = None,
    limit_key: str | None = None,
    correlation_id: str | None = None,
    user: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    error: str | None = None,
    held_back: str | None = None,
) -> QuerySet[JobQueue]:
    """Narrow `jobs` to those that meet every filter; None filters nothing.

    Raises:
        FilterInvalid: no user in scope has the name `user`.
    """
    jobs = _equal(
        jobs,
        category=category,
        job_type=job_type,
        limit_key=limit_key,
        correlation_id=correlation_id,
        user_id__in=None if user is None else users_named(user),
    )
    if status is not None:
        jobs = with_status(jobs, status)
    jobs = filter_created(jobs, created_after, created_before)
    if error is not None:
        jobs = jobs.filter(with_last_error(error))
    if held_back is not None:
        jobs = jobs.filter(limits_in_force().held_back(held_back))
    return jobs


def filter_dead_letters(
    rows: QuerySet[DeadLetterQueue],
    *,
    resolution: str | None = None,
    reason: str | None = None,
    category: str | None = None,
    job_type: str | None = None,
    fingerprint: str | None = None,
    user: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    search: str | None = None,
) -> QuerySet[DeadLetterQueue]:
    """Narrow `rows` to those that meet every filter; None filters nothing.

    Raises:
        FilterInvalid: no user in scope has the name `user`.
    """
    rows = _equal(
        rows,
        reason=reason,
        fingerprint=fingerprint,
        category=category,
        job_type=job_type,
        moved_at__gte=created_after,
        moved_at__lt=created_before,
    )
    if user is not None:
        # The firm is named so that PostgreSQL can use the index of a job's dead letters.
        rows = rows.filter(
            original_job__user_id__in=users_named(user), firm_id=F("original_job__firm_id")
        )
    if resolution == OPEN:
        rows = rows.filter(resolution__in=OPEN_RESOLUTIONS)
    elif resolution is not None:
        rows = rows.filter(resolution=resolution)
    return rows if search is None else search_dead_letters(rows, search)


def filter_locks(
    locks: QuerySet[ConcurrencyLock], *, kind: str | None = None, search: str | None = None
) -> QuerySet[ConcurrencyLock]:
    """Narrow `locks` to those of a kind, and to those whose key begins with `search`."""
    of_jobs = Q(holder_id__startswith=JOB_HOLDER)
    if kind is not None:
        locks = locks.filter(of_jobs if kind == LockKind.JOB else ~of_jobs)
    return _equal(locks, lock_key__startswith=search)


def filter_audit_log(
    entries: QuerySet[AuditEntry],
    *,
    operation: str | None = None,
    door: str | None = None,
    actor: str | None = None,
    target_type: str | None = None,
    target_id: str | None = None,
    correlation_id: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
) -> QuerySet[AuditEntry]:
    """Narrow `entries` to those that meet every filter; None filters nothing."""
    entries = filter_created(entries, created_after, created_before)
    return _equal(
        entries,
        act=operation,
        door=door,
        actor_name=actor,
        target_type=target_type,
        target_id=target_id,
        correlation_id=correlation_id,
    )


def filter_deliveries(
    rows: QuerySet[Delivery],
    *,
    channel: str | None = None,
    status: str | None = None,
    event: str | None = None,
    endpoint: UUID | None = None,
    job_id: UUID | None = None,
) -> QuerySet[Delivery]:
    """Narrow `rows` to those that meet every filter; None filters nothing."""
    return _equal(
        rows, channel=channel, status=status, event=event, endpoint_id=endpoint, job_id=job_id
    )


def filter_workers(
    workers: QuerySet[Worker],
    *,
    state: str | None = None,
    category: str | None = None,
    host: str | None = None,
) -> QuerySet[Worker]:
    """Narrow `workers` to those of a state and a host, and to those that serve the category."""
    if state == WorkerState.DEAD:
        workers = workers.filter(dead_at__isnull=False)
    elif state is not None:
        in_force = Q(lease_expires_at__gt=database_now())
        lives = in_force if state == WorkerState.LIVE else ~in_force
        workers = workers.filter(lives, dead_at__isnull=True)
    if category is not None:
        # As text: SQLite cannot search a JSON list.
        workers = workers.annotate(served=Cast("categories", TextField())).filter(
            Q(served="[]") | Q(served__contains=f'"{category}"')
        )
    return _equal(workers, host=host)


def filter_created(
    rows: QuerySet[M], after: datetime | None, before: datetime | None
) -> QuerySet[M]:
    """Narrow `rows` to those created in a period, through the index of their ids."""
    if after is not None:
        rows = rows.filter(pk__gte=id_at(after - CLOCK_MARGIN), created_at__gte=after)
    if before is not None:
        rows = rows.filter(pk__lt=id_at(before + CLOCK_MARGIN), created_at__lt=before)
    return rows


def _equal(rows: QuerySet[M], **lookups: object) -> QuerySet[M]:
    """Apply the lookups whose value is not None."""
    return rows.filter(**{name: value for name, value in lookups.items() if value is not None})


def users_named(name: str) -> list[Any]:
    """Return the ids of the users who sign in with this name, in any case.

    Raises:
        FilterInvalid: no such user is a member of a firm in scope, or had a job of one enqueued on
            their behalf. The caller does not learn whether another firm has such a user.
    """
    known = list(find_users(name).values_list("pk", flat=True))
    if require_scope("users").firm_ids is not None:
        members = Membership.objects.filter(user_id__in=known).values_list("user_id", flat=True)
        named = {*members}
        known = [pk for pk in known if pk in named or JobQueue.objects.filter(user_id=pk).exists()]
    if not known:
        raise FilterInvalid([Fault("user", "unknown", UNKNOWN_USER)])
    return known


def with_status(jobs: QuerySet[JobQueue], status: str) -> QuerySet[JobQueue]:
    """Narrow `jobs` to one status; if it is a rare one, in a way that an index serves."""
    jobs = jobs.filter(status=status)
    if status in LIVE:
        return only_live(jobs)
    if status in (Status.FAILED, Status.CANCELED):
        return jobs.filter(completed_at__isnull=False, result__isnull=True)
    if status == Status.DLQ:
        # A join, so that the index of dead letters gives the order. It repeats no job, because a
        # job has one open letter at most.
        firm_ids = require_scope("dead letters").firm_ids
        mine = {} if firm_ids is None else {"dead_letters__firm_id__in": firm_ids}
        return jobs.filter(dead_letters__resolution__in=OPEN_RESOLUTIONS, **mine)
    return jobs


def only_live(jobs: QuerySet[JobQueue]) -> QuerySet[JobQueue]:
    """Narrow `jobs` to live ones, which are ready or waiting: two indexes hold only those."""
    narrowed = jobs.filter(Q(ready=True) | Q(waiting=True))
    # If the condition were there twice, PostgreSQL would expect few rows, and sort a great many.
    said = narrowed.query.where.children[-1] in jobs.query.where.children
    return jobs if said else narrowed


def search_dead_letters(rows: QuerySet[DeadLetterQueue], term: str) -> QuerySet[DeadLetterQueue]:
    """Narrow `rows` by a job's or dead letter's id or its beginning, a fingerprint or error class.

    After `error:` it is any text of the error, as in the search of jobs.
    """
    text = term.removeprefix(ERROR).strip().strip('"') if term.startswith(ERROR) else ""
    if text:
        return rows.annotate(said=error_text("error")).filter(said__icontains=text)
    # Lists show the class without its module.
    wanted = Q(fingerprint=term) | Q(error_class=term) | Q(error_class__endswith=f".{term}")
    span = id_range(term)
    if span is not None:
        first, last = span
        # Django has no range lookup for foreign keys.
        wanted |= Q(id__range=span) | Q(original_job_id__gte=first, original_job_id__lte=last)
    return rows.filter(wanted)


def id_range(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id that begin with `text`; None if no id can."""
    digits = text.strip().lower().replace("-", "")
    if not _HEX.match(digits):
        return None
    return UUID(hex=digits.ljust(32, "0")), UUID(hex=digits.ljust(32, "f"))
