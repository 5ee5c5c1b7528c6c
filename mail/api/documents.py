"""`documents/`: attachments that are read, with their state and text."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from jobs.api.query import FirmPageQuery, choice
from jobs.api.views import list_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentSerializer, ContentView
from mail.models import Document, DocumentStatus, ScanResult
from mail.services.documents.stranded import why_not_read, with_job_status


class DocumentRowSerializer(ContentSerializer):
    """An attachment that is read, in a list."""

    content: ClassVar[tuple[str, ...]] = ("filename", "malware", "sha256")

    account_id = serializers.UUIDField()
    message_id = serializers.UUIDField()
    part_id = serializers.CharField(
        source="attachment.part_id", help_text="Gmail's id of the attachment's part in the message."
    )
    filename = NullableTextField(
        f"Untrusted: never a path. {FOR_READERS}", source="attachment.filename"
    )
    status = serializers.ChoiceField(DocumentStatus.choices)
    reason = NullableTextField(
        "A code that says why the document was not read, or not as a whole.", source="why_code"
    )
    reason_text = NullableTextField("The reason in words.", source="why_text")
    scan = serializers.ChoiceField(ScanResult.choices, help_text="Empty: not yet scanned.")
    malware = NullableTextField(f"What the scanner found. {FOR_READERS}")
    declared_type = NullableTextField(source="attachment.mime_type")
    detected_type = NullableTextField(
        "The type that the content has; null before the content was examined."
    )
    size = serializers.IntegerField(help_text="How many bytes were fetched.")
    sha256 = NullableTextField(f"SHA-256 of the bytes that were fetched. {FOR_READERS}")
    job_id = serializers.UUIDField(
        allow_null=True, help_text="The job of the next step; at the end, of the last step."
    )
    created_at = TimestampField()
    fetched_at = TimestampField()
    scanned_at = TimestampField()
    ended_at = TimestampField("When the last step was done.")

    def to_representation(self, row: Document) -> dict[str, Any]:
        """Return the fields; `reason` also tells if the document's job is over."""
        row.why_code, row.why_text = why_not_read(row)  # type: ignore[attr-defined]  # for the fields
        return super().to_representation(row)


class DocumentSerializer(DocumentRowSerializer):
    """An attachment that is read, with its text."""

    content: ClassVar[tuple[str, ...]] = (*DocumentRowSerializer.content, "text")

    text = NullableTextField(f"The document's text, as far as it was read. {FOR_READERS}")


class DocumentQuery(FirmPageQuery):
    """The page and the filters of documents."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    message_id = serializers.UUIDField(required=False, help_text="In this message.")
    status = choice(DocumentStatus.values, "The document's status.")


class Documents(ContentView):
    """The attachments of the caller's firms that are read."""

    resource = tag = "documents"
    model, serializer = Document, DocumentSerializer

    list = list_operation(
        "List documents",
        "Attachments that are read, the latest first.",
        serializer=DocumentRowSerializer,
        rows="documents",
        query=DocumentQuery,
    )
    show = show_operation(
        "Show a document",
        "The document's status and, for readers of the mailbox, its text.",
        answer=OpenApiResponse(DocumentSerializer, "The document."),
    )

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the documents without bytes, and in a list without text."""
        large = ("content", "text") if self.action == "list" else ("content",)
        rows = super().get_rows(**filters).select_related("account", "attachment")
        return with_job_status(rows).defer(*large)
