"""`outbound/`: the messages that Mailroom sends; cancel, send again and mark one as sent."""

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
from jobs.api.query import FirmPageQuery, choice
from jobs.api.requests import ObligatoryReason
from jobs.api.views import example, list_operation, row_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentSerializer, ContentView, PersonSerializer
from mail.api.serializers import SwitchBody
from mail.models import OutboundKind, OutboundMessage, OutboundStatus
from mail.services.sending import outbound_operations
from tenants.models import Role


class OutboundRowSerializer(ContentSerializer):
    """An outbound message, in a list."""

    content: ClassVar[tuple[str, ...]] = ("subject", "to", "cc", "bcc")

    account_id = serializers.UUIDField()
    message_id = serializers.UUIDField(
        allow_null=True, help_text="The message that this one answers or forwards."
    )
    action_id = serializers.UUIDField(allow_null=True, help_text="The action that sends it.")
    kind = serializers.ChoiceField(OutboundKind.choices)
    automatic = serializers.BooleanField(
        help_text="No person wrote the message, so Mailroom guards against loops."
    )
    status = serializers.ChoiceField(
        OutboundStatus.choices, help_text="`unknown`: nobody can tell whether the message was sent."
    )
    error = NullableTextField("Why the message was not sent.")
    sender = PersonSerializer()
    to = PersonSerializer(many=True, allow_null=True, help_text=FOR_READERS)
    cc = PersonSerializer(many=True, allow_null=True, help_text=FOR_READERS)
    bcc = PersonSerializer(many=True, allow_null=True, help_text=FOR_READERS)
    subject = serializers.CharField(allow_null=True, help_text=FOR_READERS)
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that sends it.")
    gmail_message_id = NullableTextField("Gmail's id of the message in the sent mail.")
    send_after = TimestampField(
        "Before this time the message can be canceled without a trace in Gmail."
    )
    created_at = TimestampField()
    sent_at = TimestampField()


class OutboundSerializer(OutboundRowSerializer):
    """An outbound message with its text."""

    content: ClassVar[tuple[str, ...]] = (*OutboundRowSerializer.content, "text", "html", "files")

    message_id_header = NullableTextField("The message's Message-ID header.", source="rfc822_id")
    content_hash = serializers.CharField(help_text="SHA-256 of the message's whole content.")
    text = serializers.CharField(allow_null=True, help_text=FOR_READERS)
    html = serializers.CharField(
        allow_null=True,
        help_text=f"The same text in HTML; empty if the message has none. {FOR_READERS}",
    )
    files = serializers.ListField(
        child=serializers.CharField(),
        source="filenames",
        allow_null=True,
        help_text=f"The names of the message's attachments. {FOR_READERS}",
    )


class OutboundQuery(FirmPageQuery):
    """The page and the filters of outbound messages."""

    account_id = serializers.UUIDField(required=False, help_text="From this mailbox.")
    message_id = serializers.UUIDField(
        required=False, help_text="Answers and forwards of this message."
    )
    status = choice(OutboundStatus.values, "The outbound message's status.")


_OUTBOUND = OpenApiResponse(OutboundSerializer, "The message as it is now.")


class Outbound(ContentView):
    """What the caller's firms send."""

    resource = tag = "outbound"
    model, serializer = OutboundMessage, OutboundSerializer

    list = list_operation(
        "List outbound messages",
        "The most recently requested first; `status=unknown` lists those that need a look.",
        serializer=OutboundRowSerializer,
        rows="outbound messages",
        query=OutboundQuery,
    )
    show = show_operation(
        "Show an outbound message",
        "The message's status and, for readers of the mailbox, its text.",
        answer=OpenApiResponse(OutboundSerializer, "The message."),
    )
    cancel = row_operation(
        outbound_operations.cancel_outbound,
        "Cancel an outbound message",
        "The message is not sent. Needs the role operator. 409 if the message no longer waits to "
        "be sent.",
        body=SwitchBody,
        answer=_OUTBOUND,
        example=example("Do not send", reason="The price was wrong"),
    )
    mark_sent = row_operation(
        outbound_operations.mark_sent,
        "Mark an outbound message as sent",
        "For a message whose status is unknown and that somebody has seen in the sent mail. "
        "Needs the role operator. 409 if the message has another status.",
        body=ObligatoryReason,
        answer=_OUTBOUND,
        example=example("Mark as sent", reason="It is in the sent mail"),
    )

    @operation(
        "Send an outbound message again",
        "Mailroom looks for the message in Gmail once more, and sends it if it is not there. "
        "Needs the role operator, and the right to read the mailbox. 409 if the message was "
        "sent, waits to be sent, is being sent, or was never approved; and for an automatic reply "
        "while the mailbox may send no other, as within a day of one to the same sender.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: _OUTBOUND},
        example=example("Send again", reason="The recipient has not got it"),
    )
    def send_again(self, _: Request, **__: UUID) -> Response:
        outbound = self.get_object(Role.OPERATOR)
        if not outbound.is_readable:
            self.permission_denied(self.request, "Only a reader of the mailbox may send it again.")
        outbound_operations.send_again(outbound, by=self.actor, **self.get_body(ObligatoryReason))
        return Response(self.represent(self.get_rows().get(pk=outbound.pk)))

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the messages with their mailboxes."""
        return super().get_rows(**filters).select_related("account")
