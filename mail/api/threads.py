"""`threads/`: conversations, and the messages of one."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema_field
from rest_framework import serializers

from jobs.api.query import FirmPageQuery, choice
from jobs.api.views import list_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentSerializer, ContentView
from mail.api.messages import LARGE_COLUMNS, MessageRowSerializer
from mail.models import CATEGORY_CHOICES, MailThread, ThreadStatus
from mail.services.timelines.threads import newest_first
from tenants.scope import firm_scope

MESSAGES_SHOWN = 100


class ThreadRowSerializer(ContentSerializer):
    """A conversation in a list, with its category and status."""

    content: ClassVar[tuple[str, ...]] = ("subject",)

    account_id = serializers.UUIDField()
    gmail_thread_id = serializers.CharField()
    subject = serializers.CharField(
        allow_null=True, help_text=f"The subject of the newest message. {FOR_READERS}"
    )
    category = NullableTextField("Null: not classified.", source="classification")
    status = serializers.ChoiceField(ThreadStatus.choices)
    message_count = serializers.IntegerField()
    last_message_at = TimestampField()
    created_at = TimestampField()


class ThreadSerializer(ThreadRowSerializer):
    """A conversation with its newest messages."""

    messages = serializers.SerializerMethodField(
        help_text=f"The newest first, {MESSAGES_SHOWN} at most."
    )

    @extend_schema_field(MessageRowSerializer(many=True))
    def get_messages(self, thread: MailThread) -> Any:
        """Return the messages, which every reader of the thread may read."""
        with firm_scope(thread.firm_id):
            rows = newest_first(thread).select_related("firm", "thread").defer(*LARGE_COLUMNS)
            shown = list(rows[:MESSAGES_SHOWN])
        for message in shown:
            message.is_readable = thread.is_readable  # type: ignore[attr-defined]  # annotated
        return MessageRowSerializer(shown, many=True).data


class ThreadQuery(FirmPageQuery):
    """The page and the filters of threads."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    category = choice([value for value, _ in CATEGORY_CHOICES], "The thread's category.")
    status = choice(ThreadStatus.values, "The thread's status.")


class Threads(ContentView):
    """The conversations of the caller's firms."""

    resource = tag = "threads"
    model, serializer = MailThread, ThreadSerializer

    list = list_operation(
        "List threads",
        "The most recently stored first. Only readers of the mailbox see the subjects.",
        serializer=ThreadRowSerializer,
        rows="threads",
        query=ThreadQuery,
    )
    show = show_operation(
        "Show a thread",
        "Its category, its status and its newest messages.",
        answer=OpenApiResponse(ThreadSerializer, "The thread."),
    )

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the threads."""
        if "category" in filters:
            filters["classification"] = filters.pop("category")
        return super().get_rows(**filters)
