"""Messages in the admin: readable, and never as the HTML they came in."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from unfold.decorators import display

from jobs.admin.base import Fact, age, exact, known
from mail.admin.base import (
    ACTION_STATUS_LABELS,
    CATEGORY_LABELS,
    MailAdmin,
    subject_line,
)
from mail.admin.filters import DirectionFilter, MessageCategoryFilter, ReceivedFilter
from mail.models import MailLabel, Message
from tenants.admin.filters import FirmFilter

# Whole mails; a list needs none of it.
LARGE_COLUMNS = ("text", "html", "hidden_text", "headers", "snippet")
ROWS_SHOWN = 50


@admin.register(Message)
class MessageAdmin(MailAdmin):
    """Messages as they were when fetched."""

    change_form_template = "admin/mail/message/page.html"
    list_display = ("sender", "line", "category", "account", "firm", "received")
    list_select_related = ("firm", "account", "thread")
    list_filter = (MessageCategoryFilter, DirectionFilter, FirmFilter, ReceivedFilter)
    search_fields = ("subject",)
    search_help_text = "Words of the subject, sender's address, Gmail's id, Message-ID"
    ordering = ("-internal_date", "-id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        """Leave the mails' contents in the database until somebody opens one."""
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.defer(*LARGE_COLUMNS)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by what people remember of a mail, or copy from it."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if "@" in term:
            exactly = Q(sender_address__iexact=term) | Q(message_id__in=[term, f"<{term}>"])
            return queryset.filter(exactly), False
        return queryset.filter(Q(subject__icontains=term) | Q(gmail_message_id=term)), False

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the mail, what was decided about it, and what was done to it."""
        message: Any = self.get_object(request, object_id)
        thread = message.thread
        context = {
            "title": subject_line(message.subject),
            "message": message,
            "category": thread.get_classification_display() or "not classified",
            "category_label": CATEGORY_LABELS[thread.classification],
            "recipients": [("To", message.to), ("Cc", message.cc)],
            "labels": _label_names(message),
            "attachments": message.attachments.order_by("part_id")[:ROWS_SHOWN],
            "decisions": message.decisions.order_by("-id")[:ROWS_SHOWN],
            "actions": [
                (action, ACTION_STATUS_LABELS[action.status])
                for action in message.actions.order_by("-id")[:ROWS_SHOWN]
            ],
            "facts": known(_facts(message)),
        }
        page: HttpResponse = super().change_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )
        return page

    @display(description="From", header=True)
    def sender(self, message: Message) -> list[str]:
        """Name the sender."""
        return [message.sender_name or message.sender_address or "-", message.sender_address]

    @display(description="Subject")
    def line(self, message: Message) -> str:
        """Show the subject."""
        return subject_line(message.subject)

    @display(description="Thread", label=CATEGORY_LABELS)
    def category(self, message: Message) -> tuple[str, str]:
        """Say what its thread wants from the person."""
        thread = message.thread
        return thread.classification, thread.get_classification_display() or "not classified"

    @display(description="Received")
    def received(self, message: Message) -> str:
        """Say when Gmail received it."""
        return age(message.internal_date)


def _label_names(message: Message) -> list[str]:
    known_labels = MailLabel.objects.filter(
        account_id=message.account_id, gmail_label_id__in=message.labels
    )
    names = dict(known_labels.values_list("gmail_label_id", "name"))
    return [names.get(label, label) for label in message.labels]


def _facts(message: Message) -> list[Fact]:
    return [
        Fact("Account", message.account.address),
        Fact("Firm", message.firm.name),
        Fact("Received", exact(message.internal_date)),
        Fact("Fetched", exact(message.created_at)),
        Fact("Size", filesizeformat(message.size)),
        Fact("Text from", message.text_source),
        Fact("Gmail id", message.gmail_message_id, is_code=True),
        Fact("Message-ID", message.message_id, is_code=True),
    ]
