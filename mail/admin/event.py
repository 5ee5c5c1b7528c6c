"""Events in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.admin.base import age_column
from mail.admin.base import ContentAdmin, if_readable, json_block, message_link, subject_line
from mail.admin.filters import CreatedFilter, EventTypeFilter
from mail.models import MailEvent
from mail.services.timelines.events import open_detail
from tenants.admin.filters import FirmFilter


@admin.register(MailEvent)
class MailEventAdmin(ContentAdmin):
    """What happened to mail, newest first."""

    list_display = ("event", "about", "account", "firm", "correlation_id", "when")
    list_select_related = ("firm", "account", "message")
    list_filter = (EventTypeFilter, FirmFilter, CreatedFilter)
    search_fields = ("correlation_id__exact",)
    search_help_text = "Correlation id"
    ordering = ("-id",)
    fields = ("event", "account", "on", "details", "correlation_id", "created_at")
    readonly_fields = ("event", "on", "details")
    when = age_column("When", "created_at")

    @display(description="Event")
    def event(self, row: MailEvent) -> str:
        """Return the event's type."""
        return row.get_event_type_display()

    @display(description="Message")
    def about(self, row: MailEvent) -> str:
        """Return the message's subject."""
        if row.message is None:
            return "-"
        return str(if_readable(row, subject_line(row.message.subject)))

    @display(description="Message")
    def on(self, row: MailEvent) -> SafeString | str:
        """Return a link to the message."""
        return message_link(row.message, is_readable=row.is_readable)  # type: ignore[attr-defined]  # annotated

    @display(description="Details")
    def details(self, row: MailEvent) -> SafeString | str:
        """Return the details; changed labels only for a reader of the mailbox."""
        return json_block(row.detail if row.is_readable else open_detail(row))  # type: ignore[attr-defined]  # annotated
