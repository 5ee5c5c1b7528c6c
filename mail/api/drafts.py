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
from mail.api.content import FOR_READERS, ContentSerializer, ContentView, PersonSerializer
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

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    account_id = serializers.UUIDField()
    thread_id = serializers.UUIDField()
    message_id = serializers.UUIDField(help_text="What it answers.")
    replaces_id = serializers.UUIDField(
        allow_null=True, help_text="The version that this one reworks."
    )
    status = serializers.ChoiceField(DraftStatus.choices)
    origin = serializers.ChoiceField(DraftOrigin.choices, help_text="What asked for it.")
    source = serializers.ChoiceField(  # type: ignore[assignment]  # a field of the row, not of the serializer
        DraftSource.choices, help_text="Who wrote its text."
    )
    template_name = NullableTextField("The name of the reply template, if one wrote it.")
    style = NullableTextField()  # type: ignore[assignment]  # a field of the row
    language = NullableTextField()
    rework_count = serializers.IntegerField()
    edited = serializers.BooleanField(
        help_text="The person has changed it: Mailroom leaves it alone."
    )
    to = PersonSerializer(many=True, allow_null=True, help_text=FOR_READERS)
    subject = serializers.CharField(allow_null=True, help_text=FOR_READERS)
    gmail_draft_id = NullableTextField()
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that made it.")
    created_at = TimestampField()
    written_at = TimestampField("When Gmail had it.")
    ended_at = TimestampField()


class DraftSerializer(DraftRowSerializer):
    """One version of an answer with its text."""

    content: ClassVar[tuple[str, ...]] = (*DraftRowSerializer.content, "text", "instruction")

    text = serializers.CharField(
        allow_null=True, help_text=f"As Mailroom wrote it, below the marker. {FOR_READERS}"
    )
    instruction = NullableTextField(f"What the person asked of this version. {FOR_READERS}")
    content_hash = serializers.CharField(
        help_text="SHA-256 of what Gmail holds as long as nobody edits it."
    )
    llm_call_id = serializers.UUIDField(allow_null=True, help_text="The model call that wrote it.")


class DraftQuery(FirmPageQuery):
    """The page and the filters of drafts."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    thread_id = serializers.UUIDField(required=False, help_text="In this thread.")
    message_id = serializers.UUIDField(required=False, help_text="Answering this message.")
    status = choice(DraftStatus.values, "Where it is.")


class ReworkBody(SwitchBody):
    """What is to be different."""

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
        "The latest made first; each rework is a row of its own.",
        serializer=DraftRowSerializer,
        rows="drafts",
        query=DraftQuery,
    )
    show = show_operation(
        "Show a draft",
        "What became of it and, for readers of the mailbox, what it says.",
        answer=OpenApiResponse(DraftSerializer, "The draft."),
    )
    discard = row_operation(
        operations.discard_draft,
        "Discard a draft",
        "The draft is moved to the trash in Gmail, unless the person has edited it there. "
        "Needs the role operator. 409 where it is not in Gmail.",
        body=SwitchBody,
        answer=_DRAFT,
        example=example("Discard", reason="Answered by phone"),
    )

    @operation(
        "Rework a draft",
        "The draft is written anew, three times at most; a draft that the person has "
        "edited stays beside the new one. Orders given before the rework begins are "
        "carried out together. Needs the role operator, and the right to read the "
        "mailbox. 409 where it is not in Gmail, is being reworked, or was reworked three "
        "times.",
        body=ReworkBody,
        answers={HTTPStatus.OK: _DRAFT},
        example=example("Rework", instruction="Shorter, and offer a call on Friday"),
    )
    def rework(self, _: Request, **__: UUID) -> Response:
        """Have the draft written anew."""
        draft = self.get_object(Role.OPERATOR)
        if not draft.is_readable:
            self.permission_denied(self.request, "Only a reader of the mailbox may rework it.")
        operations.request_rework(draft, by=self.actor, **self.get_body(ReworkBody))
        return Response(self.represent(self.get_rows().get(pk=draft.pk)))

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the drafts with their mailboxes."""
        return super().get_rows(**filters).select_related("account")
