"""Held locks in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import column, name_cell
from jobs.admin.base import LABELS, QueueOperation, age, age_column, job_url, link, list_url
from jobs.engine.clock import database_now
from jobs.models import ConcurrencyLock
from jobs.models.limits import JOB_HOLDER, held_at
from jobs.operations import locks
from jobs.queries.locks import MOST_COUNTED, waiters_of
from jobs.states import CountedBy
from tenants.admin.base import FirmFilter, TenantOperationsAdmin
from tenants.models import Role


def _holder(lock: ConcurrencyLock) -> str:
    """Return the holder, a job with a link to its page."""
    if not lock.holder_id.startswith(JOB_HOLDER):
        return lock.holder_id
    return link(job_url(lock.holder_id.removeprefix(JOB_HOLDER)), lock.holder_id)


def _firm_filter(lock: ConcurrencyLock) -> dict[str, str]:
    return {} if lock.counted_by == CountedBy.ALL_FIRMS else {"firm": lock.firm.slug}


def _firm(lock: ConcurrencyLock) -> str:
    """Return the firm whose jobs wait for it, or "all firms"."""
    return "all firms" if lock.counted_by == CountedBy.ALL_FIRMS else lock.firm.name


@admin.register(ConcurrencyLock)
class LockAdmin(TenantOperationsAdmin):
    """The locks in force and their holders."""

    operations = (
        QueueOperation(
            name="release",
            label="Release by force",
            icon="lock_open",
            variant="danger",
            role=Role.ADMIN,
            effect="The lock becomes free at once. Its holder is not told and may still be "
            "working. The lock of a job in flight cannot be released: cancel the job instead.",
            # Another holder would have another token.
            seen=lambda lock: str(lock.fencing_token),
            perform=locks.force_release,
            report=lambda lock: f"{lock.lock_key} is free.",
        ),
    )
    returns_to_list = True
    list_select_related = ("firm",)
    empty_text = "No lock is held."
    list_display = ("lock_key", "slot", "whose", "holder", "held", "expires", "fencing_token")
    list_filter = (FirmFilter,)
    search_fields = ("lock_key__startswith",)
    # The whole term is one word, because a key may contain spaces.
    search = staticmethod(lambda rows, term: rows.filter(lock_key__startswith=term))
    search_help_text = "Lock key (or its beginning)"
    ordering = ("lock_key", "slot", "id")
    fields = ("lock_key", "slot", "whose", "holder", "acquired_at", "expires_at", "fencing_token")
    whose = column("Firm", lambda lock: name_cell(_firm(lock)))
    holder = column("Holder", _holder)
    held = age_column("Held since", "acquired_at")
    # A job's own lock lives as long as its job.
    expires = column(
        "Expires", lambda row: age(row.expires_at) if row.expires_at else "with its job"
    )

    change_form_template = "admin/jobs/concurrencylock/page.html"

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the jobs that wait for the lock."""
        waiters = waiters_of(row)
        count = f"{waiters.count:,}" if waiters.count < MOST_COUNTED else f"over {MOST_COUNTED:,}"
        return {
            **super().page_context(request, row),
            "waiters": [(job, LABELS[job.status]) for job in waiters.first],
            "waiter_count": count,
            "more_waiters": waiters.count > len(waiters.first),
            "of_all_firms": row.counted_by == CountedBy.ALL_FIRMS,
            "all_waiters": list_url("jobqueue", lock=row.lock_key, **_firm_filter(row)),
        }

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConcurrencyLock]:
        """Leave out expired locks: nobody holds them."""
        locks: QuerySet[ConcurrencyLock] = super().get_queryset(request)
        return locks.filter(held_at(database_now()))
