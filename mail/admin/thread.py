"""Threads in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import column
from jobs.admin.base import age_column, exact
from mail.admin.base import (
    CATEGORY_LABELS,
    THREAD_STATUS_LABELS,
    ContentAdmin,
    message_link,
    status_column,
)
from mail.admin.filters import (
    BriefingFilter,
    LastMessageFilter,
    ThreadCategoryFilter,
    ThreadStatusFilter,
)
from mail.models import MailThread
from mail.services.timelines.threads import newest_first
from tenants.admin.base import FirmFilter

MESSAGES_SHOWN = 100


@admin.register(MailThread)
class MailThreadAdmin(ContentAdmin):
    """Conversations with their category and status."""

    empty_text = "Mail is listed once a mailbox is connected and synced."
    list_display = ("line", "category", "state", "message_count", "account", "firm", "last")
    list_select_related = ("firm", "account")
    list_filter = (
        ThreadCategoryFilter,
        ThreadStatusFilter,
        FirmFilter,
        LastMessageFilter,
        BriefingFilter,
    )
    search_fields = ("subject", "gmail_thread_id__exact")
    search_help_text = "Words of the subject, or Gmail's id"
    ordering = ("-last_message_at", "-id")
    fields = (
        "line",
        "classification",
        "status",
        "account",
        "gmail_thread_id",
        "message_count",
        "last_message_at",
        "messages",
    )
    last = age_column("Last message", "last_message_at")
    category = column(
        "Category",
        lambda row: (row.classification, row.get_classification_display() or "not classified"),
        label=CATEGORY_LABELS,
    )
    state = status_column(THREAD_STATUS_LABELS)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Use the subject as the page's subtitle."""
        return {**super().page_context(request, row), "subtitle": row.page_name}

    @display(description="Messages, newest first")
    def messages(self, thread: MailThread) -> SafeString | str:
        """Return the thread's messages."""
        shown = newest_first(thread).only(
            "internal_date", "sender_name", "sender_address", "subject"
        )[:MESSAGES_SHOWN]
        rows = (
            (
                exact(message.internal_date),
                message.sender_name or message.sender_address or "(unknown sender)",
                message_link(message, is_readable=thread.is_readable),  # type: ignore[attr-defined]
            )
            for message in shown
        )
        return format_html_join("", "<div>{} · {} · {}</div>", rows) or "-"
