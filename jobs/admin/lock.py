"""Held locks in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display

from jobs.admin.base import age
from jobs.admin.operations import QueueOperation
from jobs.engine.clock import database_now
from jobs.models import ConcurrencyLock
from jobs.models.lock import JOB_HOLDER, held_at
from jobs.operations import locks
from tenants.admin.base import TenantOperationsAdmin
from tenants.admin.filters import FirmFilter
from tenants.models import Role


@admin.register(ConcurrencyLock)
class LockAdmin(TenantOperationsAdmin):
    """Who holds which lock, since when."""

    operations = (
        QueueOperation(
            name="release",
            label="Release by force",
            icon="lock_open",
            variant="danger",
            role=Role.ADMIN,
            effect="The lock is free at once, and its holder is not told: it may still be at "
            "work. The lock of a job in flight stays; cancel the job instead.",
            # Another holder would have another token.
            seen=lambda lock: str(lock.fencing_token),
            perform=lambda lock, answers, by: locks.force_release(lock, answers["reason"], by=by),
            report=lambda lock: f"{lock.lock_key} is free.",
        ),
    )
    returns_to_list = True
    list_select_related = ("firm",)
    list_display = ("lock_key", "slot", "firm", "holder", "held", "expires", "fencing_token")
    list_filter = (FirmFilter,)
    search_fields = ("lock_key__startswith",)
    search_help_text = "Lock key (or its beginning)"
    ordering = ("lock_key", "slot", "id")
    fields = ("lock_key", "slot", "firm", "holder", "acquired_at", "expires_at", "fencing_token")
    readonly_fields = ("holder",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConcurrencyLock]:
        """Leave out the locks whose time is up: nobody holds them."""
        locks: QuerySet[ConcurrencyLock] = super().get_queryset(request)
        return locks.filter(held_at(database_now()))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by the key; it may hold spaces, so the term is taken as it is."""
        term = search_term.strip()
        return (queryset.filter(lock_key__startswith=term) if term else queryset), False

    @display(description="Holder")
    def holder(self, lock: ConcurrencyLock) -> str:
        """Name the holder; a job's name leads to its page."""
        if not lock.holder_id.startswith(JOB_HOLDER):
            return lock.holder_id
        job_id = lock.holder_id.removeprefix(JOB_HOLDER)
        url = reverse("admin:jobs_jobqueue_change", args=[job_id])
        return format_html('<a class="queue-link" href="{}">{}</a>', url, lock.holder_id)

    @display(description="Held since")
    def held(self, lock: ConcurrencyLock) -> str:
        """Say since when it is held."""
        return age(lock.acquired_at)

    @display(description="Expires")
    def expires(self, lock: ConcurrencyLock) -> str:
        """Say when it falls free by itself; a job's lock lives as long as its job."""
        return age(lock.expires_at) if lock.expires_at else "with its job"
