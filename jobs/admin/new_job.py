"""Enqueueing a job in the admin: choose a type, then fill in the form of its payload."""

from __future__ import annotations

from dataclasses import replace
from inspect import getdoc
from itertools import groupby
from operator import attrgetter
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from interfaces.admin.operations import Operation, TextAnswer
from interfaces.admin.time_answer import TimeAnswer
from jobs import registry
from jobs.admin.base import QueueOperation, job_url
from jobs.admin.schema_fields import given, schema_fields
from jobs.engine.enqueue import EnqueueResult
from jobs.engine.job_arguments import MAX_KEY_LENGTH
from jobs.errors import PayloadInvalid
from jobs.operations.deletion import by_hand_faults
from jobs.operations.enqueue import enqueue, role_to_enqueue
from jobs.payload_validator import validate_payload
from jobs.registry import JobType
from jobs.registry.system_payload import SystemPayload
from jobs.states import PRIORITY_CHOICES, Priority
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.models import Role

# Precedes the names of the payload's fields, which may be the same as those of the form's own.
PREFIX = "payload."


class NewJobForm(FirmChoiceForm):
    """The firm, time and options of a new job; a subclass adds the payload fields of its type."""

    role = Role.DEVELOPER
    offers_every_firm = False
    declared: JobType

    at = TimeAnswer(required=False, label="Not before (UTC)", help_text="Leave empty for now.")
    priority = forms.TypedChoiceField(
        coerce=int,
        initial=Priority.NORMAL,
        choices=PRIORITY_CHOICES,
    )
    idempotency_key = forms.CharField(
        required=False,
        empty_value=None,
        max_length=MAX_KEY_LENGTH,
        help_text="If a job of the firm has this key already, no new job is enqueued. Leave empty "
        "for the key that the type derives from the payload, if it does.",
    )
    reason = TextAnswer(required=False, help_text="Kept in the audit log.")

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Add the payload's fields."""
        super().prepare(request, row)
        own = {PREFIX + name: field for name, field in schema_fields(self.declared).items()}
        self.fields.update(own)
        self.order_fields(["firm", *own])

    def clean(self) -> dict[str, Any]:
        """Put the payload together, and say at each field what its schema refuses."""
        answers = super().clean()
        payload = {}
        for name in [name for name in answers if name.startswith(PREFIX)]:
            value = answers.pop(name)
            if given(self.fields[name], value):
                payload[name.removeprefix(PREFIX)] = value
        if not self.errors:
            self._check(payload, answers)
        return {**answers, "payload": payload, "job_type": self.declared.name}

    def _check(self, payload: dict[str, Any], answers: dict[str, Any]) -> None:
        envelope = {
            "tenant_id": answers["firm"].pk,
            "version": self.declared.version,
            "correlation_id": "new",
        }
        try:
            validate_payload(self.declared.name, {**envelope, **payload}, firm=answers["firm"])
        except PayloadInvalid as error:
            for fault in error.faults:
                top, _, inner = fault.field.partition(".")
                field = PREFIX + top.partition("[")[0]
                known = field in self.fields
                where = inner if known else fault.field
                self.add_error(
                    field if known else None,
                    f"{where}: {fault.message}" if where else fault.message,
                )


NEW_JOB = QueueOperation(
    name="new",
    label="New job",
    icon="add",
    variant="primary",
    role=Role.DEVELOPER,
    perform=enqueue,
    effect="",
    report=str,
)


def _operation_for(declared: JobType) -> QueueOperation:
    role = role_to_enqueue(declared.name)
    return replace(
        NEW_JOB,
        role=role,
        label=f"Enqueue {declared.name}",
        form=type("TypedNewJobForm", (NewJobForm,), {"declared": declared, "role": role}),
        effect=_summary(declared) or "The payload is checked against the schema of its type.",
    )


def _may_have(request: HttpRequest, declared: JobType) -> bool:
    """Say whether some firm of the user may have a job of the type that was enqueued by hand."""
    if issubclass(declared.payload_model, SystemPayload):
        return access_in(request).is_platform_staff
    return not by_hand_faults(declared.name)


def _summary(declared: JobType) -> str:
    """Return the first line of the handler's docstring."""
    return (getdoc(declared.handler) or "").partition("\n")[0]


class NewJobAdmin(TenantOperationsAdmin):
    """A list of jobs with pages that enqueue one."""

    list_operations = (NEW_JOB,)

    def get_urls(self) -> list[URLPattern]:
        """Add a page for each job type."""
        page = self.admin_site.admin_view(self.new_job_view)
        return [
            path("new/<str:job_type>/", page, name=self.url_name("new_of")),
            *super().get_urls(),
        ]

    def new_job_view(self, request: HttpRequest, job_type: str) -> HttpResponse:
        """Ask on GET, enqueue on POST.

        Raises:
            Http404: there is no such type, or its jobs are not enqueued by hand.
        """
        declared = registry.find(job_type)
        if declared is None or not _may_have(request, declared):
            raise Http404("no such job type")
        return super().operation_view(request, operation=_operation_for(declared))

    def operation_view(
        self, request: HttpRequest, object_id: str | None = None, *, operation: Operation
    ) -> HttpResponse:
        """Let the user choose a type for a new job; other operations have their usual page."""
        if operation is not NEW_JOB:
            return super().operation_view(request, object_id, operation=operation)
        if not self.may(request, operation):
            raise PermissionDenied
        access = access_in(request)
        offered = [
            one
            for one in registry.all_types()
            if _may_have(request, one) and access.firms(role_to_enqueue(one.name)) != []
        ]
        by_category = sorted(offered, key=attrgetter("category.value"))
        categories = [
            (
                category,
                [(one.name, _summary(one), self.address("new_of", one.name)) for one in types],
            )
            for category, types in groupby(by_category, attrgetter("category.value"))
        ]
        context = {
            **self.admin_site.each_context(request),
            "title": "New job",
            "content_title": "New job",
            "categories": categories,
        }
        return TemplateResponse(request, "admin/jobs/jobqueue/new.html", context)

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Lead to the new job's page."""
        if not isinstance(made, EnqueueResult):
            return super().respond(request, operation, row, made)
        if made.created:
            messages.success(request, f"{made.job.job_type} is enqueued.")
        else:
            messages.warning(
                request, "This job has the idempotency key already; nothing was enqueued."
            )
        return HttpResponseRedirect(job_url(made.job_id))
