"""Mail accounts in the admin."""

from __future__ import annotations

from django.contrib import admin
from unfold.decorators import display

from jobs.admin.base import age_column
from mail.admin.base import SYNC_STATUS_LABELS, MailAdmin
from mail.admin.filters import SyncStatusFilter
from mail.models import MailAccount
from tenants.admin.filters import ActiveFilter, FirmFilter


@admin.register(MailAccount)
class MailAccountAdmin(MailAdmin):
    """Mail accounts and their sync."""

    list_display = (
        "address",
        "display_name",
        "state",
        "firm",
        "synced",
        "history_cursor",
        "active",
    )
    list_filter = (ActiveFilter, SyncStatusFilter, FirmFilter)
    search_fields = ("address__istartswith",)
    ordering = ("address",)
    fields = (
        "address",
        "display_name",
        "provider",
        "firm",
        "active",
        "sync_status",
        "history_cursor",
        "last_sync_at",
        "created_at",
    )
    synced = age_column("Last sync", "last_sync_at")

    @display(description="Sync", label=SYNC_STATUS_LABELS)
    def state(self, account: MailAccount) -> tuple[str, str]:
        """Return the state of its sync."""
        return account.sync_status, account.get_sync_status_display()
