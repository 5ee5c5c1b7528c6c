"""Events in the admin."""

from __future__ import annotations

from django.contrib import admin

from interfaces.admin.base import column
from jobs.admin.base import age_column
from mail.admin.base import ContentAdmin, json_block
from mail.admin.filters import CreatedFilter, EventTypeFilter
from mail.models import MailEvent
from mail.services.timelines.events import open_detail
from tenants.admin.base import FirmFilter


@admin.register(MailEvent)
class MailEventAdmin(ContentAdmin):
    """What happened to mail, newest first."""

    empty_text = "Nothing has happened to mail yet."
    list_display = ("event", "about", "account", "firm", "correlation_id", "when")
    list_select_related = ("firm", "account", "message")
    list_filter = (EventTypeFilter, FirmFilter, CreatedFilter)
    search_fields = ("correlation_id__exact",)
    search_help_text = "Correlation id"
    ordering = ("-id",)
    fields = ("event", "account", "on", "details", "correlation_id", "created_at")
    when = age_column("When", "created_at")
    event = column("Event", lambda row: row.get_event_type_display())
    details = column(
        "Details", lambda row: json_block(row.detail if row.is_readable else open_detail(row))
    )
