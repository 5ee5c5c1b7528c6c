"""Exports and erasures in the admin: requested, followed, downloaded."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

from interfaces.admin.base import column
from interfaces.admin.filters import field_filter
from interfaces.admin.operations import Operation, OperationForm
from jobs.admin.base import age_column
from mail.admin.base import MailAdmin, job_link, json_block, status_column
from mail.admin.operation import MailOperation, NewRow
from mail.models import MAX_ADDRESS_LENGTH, DataRequest, RequestKind, RequestStatus
from mail.services.exports.requests import request_data, stream_zip, zip_name
from tenants.admin.base import FirmFilter, TenantOperationsAdmin
from tenants.admin.firm_choice import SingleFirmForm
from tenants.models import Firm, Role

STATUS_LABELS: dict[str, str] = {
    RequestStatus.RUNNING: "primary",
    RequestStatus.READY: "success",
    RequestStatus.DONE: "success",
    RequestStatus.EXPIRED: "default",
    RequestStatus.FAILED: "danger",
}


class NewRequestForm(SingleFirmForm):
    """Whose data are requested, and why."""

    role = Role.ADMIN
    field_order = ("firm", "kind", "subject", "reason")
    kind = forms.ChoiceField(choices=RequestKind.choices, label="What")
    subject = forms.CharField(
        required=False,
        max_length=MAX_ADDRESS_LENGTH,
        label="The person's e-mail address",
        help_text="Empty for an export of the firm.",
    )
    reason = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), max_length=2000)


def _create(*, firm: Firm, kind: str, by: Any, **answers: Any) -> DataRequest:
    return request_data(firm, RequestKind(kind), by=by, **answers)


def _why_no_zip(request: DataRequest) -> str:
    return "" if request.status == RequestStatus.READY else "There is no zip to download."


NEW = NewRow(
    label="New request",
    form=NewRequestForm,
    effect="An export is a zip with everything, the mail of every mailbox included; it can be "
    "downloaded for a week. An erasure deletes all mail that mentions the person, and "
    "such mail is not stored from then on; it cannot be undone.",
    perform=_create,
    report=lambda request: f"{request.get_kind_display()}: the job is in the queue.",
)
DOWNLOAD = MailOperation(
    name="download",
    label="Download",
    icon="download",
    variant="primary",
    form=OperationForm,
    effect="The zip contains mail. The audit log records that you downloaded it.",
    obstacle=_why_no_zip,
    perform=stream_zip,
    report=str,
)


@admin.register(DataRequest)
class DataRequestAdmin(TenantOperationsAdmin, MailAdmin):
    """Data requests, the newest first; the person that one is about is not shown."""

    empty_text = "Nobody has asked for an export or an erasure."
    list_operations = (NEW,)
    operations = (DOWNLOAD,)
    list_display = ("kind", "state", "about", "requested_by", "firm", "created")
    list_filter = (field_filter("kind", RequestKind.choices), FirmFilter)
    ordering = ("-id",)
    fields = (
        "kind",
        "status",
        "about",
        "reason",
        "requested_by",
        "rows",
        "job",
        "created_at",
        "finished_at",
        "expires_at",
    )
    state = status_column(STATUS_LABELS)
    about = column("About the firm", lambda row: row.about_firm)
    requested_by = column("Requested by", lambda row: row.requested_by_name)
    rows = column("Rows by table", lambda row: json_block(row.counts))
    job = column("Job", lambda row: job_link(row.job_id))
    created = age_column("Requested", "created_at")

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Answer a download with the zip."""
        if operation.name != "download":
            return super().respond(request, operation, row, made)
        named = content_disposition_header(as_attachment=True, filename=zip_name(row)) or ""
        return StreamingHttpResponse(  # type: ignore[return-value]  # a response like any
            made, content_type="application/zip", headers={"Content-Disposition": named}
        )
