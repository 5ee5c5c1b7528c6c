"""`drafts/`: the answers Mailroom drafts, with rework and discard."""

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
from interfaces.api.serializers import TextField
from jobs.api.query import FirmPageQuery, choice
from jobs.api.views import example, list_operation, row_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentSerializer, ContentView, PersonSerializer
from mail.api.serializers import SwitchBody
from mail.models import (
    MAX_INSTRUCTION_LENGTH,
    Draft,
    DraftOrigin,
    DraftSource,
    DraftStatus,
)
from mail.services.drafting import operations
from tenants.models import Role


class DraftRowSerializer(ContentSerializer):
    """One version of an answer, in a list."""

    content: ClassVar[tuple[str, ...]] = ("subject", "to")

    account_id = serializers.UUIDField()
    thread_id = serializers.UUIDField()
    message_id = serializers.UUIDField(help_text="The message that the draft answers.")
    replaces_id = serializers.UUIDField(
        allow_null=True, help_text="The version that this one reworks."
    )
    status = serializers.ChoiceField(DraftStatus.choices)
    origin = serializers.ChoiceField(
        DraftOrigin.choices, help_text="What the draft was written for."
    )
    source = serializers.ChoiceField(  # type: ignore[assignment]  # a field of the row, not of the serializer
        DraftSource.choices, help_text="Who wrote the draft's text."
    )
    template_name = NullableTextField("The reply template that the text is from, if any.")
    style = NullableTextField()  # type: ignore[assignment]  # a field of the row
    language = NullableTextField()
    rework_count = serializers.IntegerField()
    edited = serializers.BooleanField(
        help_text="The person has changed the draft, so Mailroom no longer changes it."
    )
    to = PersonSerializer(many=True, allow_null=True, help_text=FOR_READERS)
    subject = serializers.CharField(allow_null=True, help_text=FOR_READERS)
    gmail_draft_id = NullableTextField()
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that wrote the draft.")
    created_at = TimestampField()
    written_at = TimestampField("When the draft was stored in Gmail.")
    ended_at = TimestampField()


class DraftSerializer(DraftRowSerializer):
    """One version of an answer with its text."""

    content: ClassVar[tuple[str, ...]] = (*DraftRowSerializer.content, "text", "instruction")

    text = serializers.CharField(
        allow_null=True, help_text=f"The text below the marker, as Mailroom wrote it. {FOR_READERS}"
    )
    instruction = NullableTextField(f"What the person asked of this version. {FOR_READERS}")
    content_hash = serializers.CharField(
        help_text="SHA-256 of the draft as Mailroom stored it in Gmail."
    )
    llm_call_id = serializers.UUIDField(
        allow_null=True, help_text="The model call that wrote the draft."
    )


class DraftQuery(FirmPageQuery):
    """The page and the filters of drafts."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    thread_id = serializers.UUIDField(required=False, help_text="In this thread.")
    message_id = serializers.UUIDField(required=False, help_text="Answers to this message.")
    status = choice(DraftStatus.values, "The draft's status.")


class ReworkBody(SwitchBody):
    """What to change in the draft."""

    instruction = TextField(
        required=False, allow_blank=True, max_length=MAX_INSTRUCTION_LENGTH,
        help_text="What to change; an order above the marker in Gmail takes precedence over it.",
    )  # fmt: skip


_DRAFT = OpenApiResponse(DraftSerializer, "The draft as it is now; a job does the rest.")


class Drafts(ContentView):
    """The drafts of the caller's firms."""

    resource = tag = "drafts"
    model, serializer = Draft, DraftSerializer

    list = list_operation(
        "List drafts",
        "The newest first; each rework is a row of its own.",
        serializer=DraftRowSerializer,
        rows="drafts",
        query=DraftQuery,
    )
    show = show_operation(
        "Show a draft",
        "The draft's status and, for readers of the mailbox, its text.",
        answer=OpenApiResponse(DraftSerializer, "The draft."),
    )
    discard = row_operation(
        operations.discard_draft,
        "Discard a draft",
        "The draft is moved to the trash in Gmail, unless the person has edited it there. Needs "
        "the role operator. 409 if the draft is not in Gmail.",
        body=SwitchBody,
        answer=_DRAFT,
        example=example("Discard", reason="Answered by phone"),
    )

    @operation(
        "Rework a draft",
        "The draft is written anew, three times at most; a draft that the person has edited "
        "stays beside the new one. Orders given before the rework begins are carried out "
        "together. Needs the role operator, and the right to read the mailbox. 409 if the draft "
        "is not in Gmail, is being reworked, or was reworked three times.",
        body=ReworkBody,
        answers={HTTPStatus.OK: _DRAFT},
        example=example("Rework", instruction="Shorter, and offer a call on Friday"),
    )
    def rework(self, _: Request, **__: UUID) -> Response:
        draft = self.get_object(Role.OPERATOR)
        if not draft.is_readable:
            self.permission_denied(self.request, "Only a reader of the mailbox may rework it.")
        operations.request_rework(draft, by=self.actor, **self.get_body(ReworkBody))
        return Response(self.represent(self.get_rows().get(pk=draft.pk)))

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the drafts with their mailboxes."""
        return super().get_rows(**filters).select_related("account")
