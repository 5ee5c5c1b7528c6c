"""`messages/`: stored mail, and everything that happened to one message."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import MomentField
from jobs.api.query import MAX_SEARCH_LENGTH, FirmPageQuery, choice, text
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentSerializer, ContentView, PersonSerializer
from mail.api.serializers import CATEGORIES, SwitchBody
from mail.models import CATEGORY_CHOICES, MAX_ADDRESS_LENGTH, Message
from mail.services.deciding.corrections import reclassify
from mail.services.documents.search import find_messages
from mail.services.mailboxes.content_access import readable
from mail.services.timelines.timeline import EntryKind, timeline_of
from mail.text.sanitize import sanitize_html
from tenants.models import Role
from tenants.scope import firm_scope

LARGE_COLUMNS = ("text", "html", "hidden_text", "headers")


class MessageRowSerializer(ContentSerializer):
    """A message in a list; only readers of the mailbox see its subject, snippet and labels."""

    content: ClassVar[tuple[str, ...]] = ("subject", "snippet", "labels")

    account_id = serializers.UUIDField()
    thread_id = serializers.UUIDField()
    gmail_message_id = serializers.CharField()
    outgoing = serializers.BooleanField(help_text="Written by the mailbox's owner.")
    sender_name = NullableTextField()
    sender_address = NullableTextField()
    to = PersonSerializer(many=True)
    cc = PersonSerializer(many=True)
    category = NullableTextField(
        "The thread's category; null: not classified.", source="thread.classification"
    )
    subject = serializers.CharField(allow_null=True, help_text=FOR_READERS)
    snippet = serializers.CharField(allow_null=True, help_text=FOR_READERS)
    labels = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text=f"Gmail's ids of the labels. {FOR_READERS}",
    )
    size = serializers.IntegerField(help_text="Gmail's estimate, in bytes.")
    received_at = TimestampField("When Gmail received it.", source="internal_date")
    created_at = TimestampField("When Mailroom stored it.")


class AttachmentSerializer(serializers.Serializer[Any]):
    """An attachment of a message; its bytes stay in Gmail."""

    part_id = serializers.CharField()
    filename = serializers.CharField(help_text="Untrusted: never a path.")
    mime_type = serializers.CharField()
    size = serializers.IntegerField(help_text="The size in bytes.")
    inline = serializers.BooleanField()


class MessageSerializer(MessageRowSerializer):
    """A message with its text."""

    content: ClassVar[tuple[str, ...]] = (
        *MessageRowSerializer.content, "text", "html", "hidden_text", "attachments",
    )  # fmt: skip

    message_id = NullableTextField("The Message-ID header.")
    text = serializers.CharField(allow_null=True, help_text=f"The readable text. {FOR_READERS}")
    html = serializers.SerializerMethodField(
        help_text="The HTML without scripts, style sheets, forms and remote images. " + FOR_READERS
    )
    hidden_text = NullableTextField(f"Text that the HTML hides from the reader. {FOR_READERS}")
    attachments = AttachmentSerializer(many=True, allow_null=True, help_text=FOR_READERS)

    def get_html(self, message: Message) -> str | None:
        """Return the sanitised HTML."""
        return sanitize_html(message.html) if message.html else None


class TimelineEntrySerializer(serializers.Serializer[Any]):
    """One thing that happened to a message."""

    kind = serializers.ChoiceField([(kind.value, kind.value) for kind in EntryKind])
    id = serializers.UUIDField(source="row.pk", help_text="The id of the row that `kind` names.")
    at = TimestampField(allow_null=False)
    title = serializers.CharField()
    status = NullableTextField("For a decision, its source; null for an event.")
    detail = NullableTextField()
    content = NullableTextField(f"The part that quotes the mail. {FOR_READERS}")
    correlation_id = NullableTextField(
        "The correlation id of an event or a job; null for other entries."
    )
    job_id = serializers.UUIDField(
        allow_null=True, help_text="The job that did this, or that will do it."
    )
    undoable = serializers.SerializerMethodField(
        help_text="Whether this is an action that can be undone now."
    )

    def get_undoable(self, entry: Any) -> bool:
        """Say whether the entry is an action that can be undone now."""
        return bool(entry.why_not_undoable == "")


class TimelineSerializer(serializers.Serializer[Any]):
    """What happened to a message, oldest first."""

    results = TimelineEntrySerializer(many=True)


class ReclassifyBody(SwitchBody):
    """The category of the message's thread."""

    category = serializers.ChoiceField(
        CATEGORIES,
        required=False,
        help_text="The category; without it, the thread is judged once more.",
    )


class ReclassifyJobSerializer(serializers.Serializer[Any]):
    """The job that stores the category."""

    job_id = serializers.UUIDField()
    created = serializers.BooleanField(
        help_text="False: a job for this was waiting already, and this is that job."
    )


class MessageQuery(FirmPageQuery):
    """The page and the filters of messages."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    thread_id = serializers.UUIDField(required=False, help_text="In this thread.")
    direction = choice(
        ("in", "out"), "`out`: written by the mailbox's owner; `in`: by anybody else."
    )
    category = choice(
        [value for value, _ in CATEGORY_CHOICES], "The category of the message's thread."
    )
    sender = text("The sender's exact address, in upper or lower case.", MAX_ADDRESS_LENGTH)
    q = text(
        "Words of the mail, or their beginnings. Finds the newest 1000 messages that contain all "
        "of them, among those that the caller may read.",
        MAX_SEARCH_LENGTH,
    )
    received_after = MomentField(required=False, help_text="Received at this time or later.")
    received_before = MomentField(required=False, help_text="Received before this time.")


_LOOKUPS = {
    "category": "thread__classification",
    "sender": "sender_address__iexact",
    "received_after": "internal_date__gte",
    "received_before": "internal_date__lt",
}


class Messages(ContentView):
    """The messages of the caller's firms."""

    resource = tag = "messages"
    model, serializer = Message, MessageSerializer

    list = list_operation(
        "List messages",
        "The most recently stored first. Only readers of the mailbox see subjects, snippets and "
        "labels.",
        serializer=MessageRowSerializer,
        rows="messages",
        query=MessageQuery,
    )
    show = show_operation(
        "Show a message",
        "With its text and attachments, for readers of the mailbox.",
        answer=OpenApiResponse(MessageSerializer, "The message."),
    )

    @operation(
        "Show what happened to a message",
        "Events, decisions, actions, jobs, approvals, outbound messages and model calls, oldest "
        "first. At most the newest 200 of each kind are listed.",
        answers={HTTPStatus.OK: OpenApiResponse(TimelineSerializer, "What happened.")},
    )
    def timeline(self, _: Request, **__: UUID) -> Response:
        message = self.get_object()
        with firm_scope(message.firm_id):
            entries = timeline_of(message, is_readable=message.is_readable)
        return Response(TimelineSerializer({"results": entries}).data)

    @operation(
        "Reclassify a message",
        "The message's thread gets the category. Without a category, the thread is judged once "
        "more. Mailroom may propose a rule for the sender, which does nothing until it is "
        "enabled. Only for the mailbox's owner, and for operators who may read the mailbox.",
        body=ReclassifyBody,
        answers={HTTPStatus.ACCEPTED: OpenApiResponse(ReclassifyJobSerializer, "The job.")},
        example=example("Only for information", category="fyi", reason="A newsletter"),
    )
    def reclassify(self, request: Request, **__: UUID) -> Response:
        message = self.get_object()
        if not message.is_readable:
            self.permission_denied(request, "Only a reader of the mailbox may reclassify its mail.")
        if not self.acts_as_owner(message.account):
            self.check_role(Role.OPERATOR, message.firm_id)
        result = reclassify(message, by=self.actor, **self.get_body(ReclassifyBody))
        answer = {"job_id": str(result.job_id), "created": result.created}
        return Response(answer, HTTPStatus.ACCEPTED)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the messages, in a list without their large columns."""
        direction = filters.pop("direction", None)
        if direction is not None:
            filters["outgoing"] = direction == "out"
        if (words := filters.pop("q", None)) is not None:
            filters["pk__in"] = find_messages(words, readable(self.request.user.pk, "account__"))
        named = {_LOOKUPS.get(name, name): value for name, value in filters.items()}
        rows = super().get_rows(**named).select_related("account", "thread")
        return rows.defer(*LARGE_COLUMNS) if self.action == "list" else rows
