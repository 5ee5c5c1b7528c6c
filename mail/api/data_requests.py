"""`data-requests/`: exports of a firm or a person, and the erasure of a person."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import TextField
from jobs.api.requests import FirmBody
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.serializers.fields import TimestampField
from mail.api.base import FirmRowSerializer, MailView
from mail.api.serializers import MAX_REASON_LENGTH
from mail.models import MAX_ADDRESS_LENGTH, DataRequest, RequestKind, RequestStatus
from mail.services.exports.requests import request_data, stream_zip, zip_name
from tenants.models import Role

ZIP_TYPE = "application/zip"


class ZipRenderer(JSONRenderer):
    """Lets a caller accept a zip; only problems are rendered here, and those are JSON."""

    media_type = ZIP_TYPE
    format = "zip"


class DataRequestSerializer(FirmRowSerializer):
    """A data request, without the person it is about."""

    kind = serializers.ChoiceField(RequestKind.choices)
    status = serializers.ChoiceField(RequestStatus.choices)
    about_firm = serializers.CharField(
        help_text="The slug of the firm whose data is exported or erased."
    )
    reason = serializers.CharField()
    requested_by = serializers.CharField(source="requested_by_name")
    rows = serializers.SerializerMethodField(
        help_text="How many rows were exported or erased so far."
    )
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that exports or erases.")
    created_at = TimestampField()
    finished_at = TimestampField()
    expires_at = TimestampField("When the zip is deleted.")

    def get_rows(self, request: DataRequest) -> int:
        """Return the number of rows of all tables."""
        counts = request.counts if isinstance(request.counts, dict) else {}
        return sum(count for count in counts.values() if isinstance(count, int))


class CreateDataRequestBody(FirmBody):
    """The export or erasure to ask for."""

    kind = serializers.ChoiceField(RequestKind.choices)
    subject = TextField(
        default="",
        allow_blank=True,
        max_length=MAX_ADDRESS_LENGTH,
        help_text="The person's e-mail address; empty for an export of the firm.",
    )
    reason = TextField(max_length=MAX_REASON_LENGTH, help_text="Kept in the audit log.")


_REQUEST = OpenApiResponse(DataRequestSerializer, "The request.")


class DataRequests(MailView):
    """The requests of the caller's firms."""

    resource, tag = "data_requests", "data requests"
    model, serializer = DataRequest, DataRequestSerializer

    list = list_operation(
        "List data requests",
        "The latest first.",
        serializer=DataRequestSerializer,
        rows="data requests",
    )
    show = show_operation(
        "Show a data request", "How far the export or erasure is.", answer=_REQUEST
    )

    @operation(
        "Ask for an export or an erasure",
        "`firm_export` makes a zip of everything that the firm owns, without tokens and keys. "
        "`gdpr_export` makes a zip of everything that mentions a person. `erase_subject` deletes "
        "all mail that mentions the person; such mail is not stored from then on. Needs the role "
        "admin.",
        body=CreateDataRequestBody,
        answers={HTTPStatus.CREATED: OpenApiResponse(DataRequestSerializer, "The request.")},
        example=example("Everything", kind="firm_export", reason="We change the provider"),
    )
    def create(self, _: Request, **__: UUID) -> Response:
        body = self.get_body(CreateDataRequestBody)
        firm = self.firm_named(body.pop("firm", None), Role.ADMIN)
        made = request_data(firm, RequestKind(body.pop("kind")), by=self.actor, **body)
        return Response(self.represent(self.get_rows().get(pk=made.pk)), HTTPStatus.CREATED)

    def get_renderers(self) -> Any:
        """Offer the zip's media type for the download."""
        renderers = super().get_renderers()
        return [*renderers, ZipRenderer()] if self.action == "download" else renderers

    @operation(
        "Download an export",
        "The zip is kept for a week after it is ready. The audit log records who downloaded it. "
        "Needs the role admin. 409 if there is no zip.",
        answers={},
        file_type=ZIP_TYPE,
        may_conflict=True,
    )
    def download(self, _: Request, **__: UUID) -> Any:
        row = self.get_object(Role.ADMIN)
        pieces = stream_zip(row, by=self.actor)
        named = content_disposition_header(as_attachment=True, filename=zip_name(row)) or ""
        return StreamingHttpResponse(
            pieces, content_type=ZIP_TYPE, headers={"Content-Disposition": named}
        )
