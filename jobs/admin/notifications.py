"""Notification endpoints and deliveries in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from interfaces.admin.base import column
from interfaces.admin.filters import field_filter
from interfaces.admin.operations import Operation, OperationForm, OptionalReasonForm
from jobs.admin.base import LABELS, QueueOperation, age_column, digest, error_line, job_url, link
from jobs.admin.limits import LimitAdmin, where
from jobs.models import Delivery, NotificationEndpoint
from jobs.models.base import choices
from jobs.models.notifications import MAX_TARGET_LENGTH
from jobs.operations import endpoints
from jobs.operations.endpoints import MAX_NAME_LENGTH
from jobs.queries.filters import id_range
from jobs.states import Channel, DeliveryStatus, NotificationEvent
from tenants.admin.base import FirmFilter, TenantAdmin
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.models import Role

EVENT_WORDS = {
    NotificationEvent.NEW_FAILURE: "Alert: a failure that is new",
    NotificationEvent.UNREVIEWED: "Alert: dead letters that nobody has reviewed",
    NotificationEvent.OPENED: "Each dead letter that opens",
    NotificationEvent.REPROCESSED: "Each dead letter that is reprocessed",
    NotificationEvent.DISCARDED: "Each dead letter that is discarded",
    NotificationEvent.ESCALATED: "Each dead letter that is escalated",
}
ALERTS = [NotificationEvent.NEW_FAILURE.value, NotificationEvent.UNREVIEWED.value]


def _events_field(**options: Any) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        required=False,
        choices=[(event.value, words) for event, words in EVENT_WORDS.items()],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        **options,
    )


class NewEndpointForm(FirmChoiceForm):
    """Where to send, and what."""

    role = Role.ADMIN
    field_order = ("everywhere", "firm", "name", "channel", "target", "events")
    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    channel = forms.ChoiceField(
        choices=[
            (Channel.EMAIL.value, "E-mail"),
            (Channel.WEBHOOK.value, "Webhook"),
            (Channel.DISCORD.value, "Discord"),
        ]
    )
    target = forms.CharField(
        max_length=MAX_TARGET_LENGTH,
        help_text="The e-mail address, or the URL of the webhook (Discord too). Lists show only "
        "the host.",
    )
    events = _events_field(initial=ALERTS)


class ChangeEndpointForm(OperationForm):
    """Where to send, and what; begins with the endpoint's present values."""

    from_row = ("name", "target", "events", "enabled")
    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    target = forms.CharField(max_length=MAX_TARGET_LENGTH)
    events = _events_field()
    enabled = forms.BooleanField(required=False)


def _seen(row: NotificationEndpoint) -> str:
    # A digest, because the page that sends a test is for operators, who may not see the whole URL.
    return digest([row.name, row.target, sorted(row.events), row.enabled])


def _no_webhook(row: NotificationEndpoint) -> str:
    return "" if row.channel == Channel.WEBHOOK else "Only webhooks have a signing key."


SHOW_KEY = QueueOperation(
    name="key",
    label="Show key",
    icon="key",
    role=Role.ADMIN,
    form=OptionalReasonForm,
    effect="Shows the key that signs this endpoint's webhooks. The audit log records who saw it.",
    obstacle=_no_webhook,
    perform=endpoints.show_signing_key,
    report=lambda _: "",
)
ROTATE_KEY = QueueOperation(
    name="rotate",
    label="Rotate key",
    icon="sync_lock",
    role=Role.ADMIN,
    form=OptionalReasonForm,
    effect="A new key signs all webhooks from now on, also those that are waiting to be sent. "
    "Give the new key to the receiver.",
    obstacle=_no_webhook,
    perform=endpoints.rotate_signing_key,
    report=lambda _: "",
)


@admin.register(NotificationEndpoint)
class EndpointAdmin(LimitAdmin):
    """Who is notified of what."""

    operations = (
        QueueOperation(
            name="edit",
            label="Change",
            icon="edit",
            variant="primary",
            role=Role.ADMIN,
            form=ChangeEndpointForm,
            effect="Applies to every notification sent from now on, also to those that are "
            "waiting. A disabled endpoint gets nothing.",
            seen=_seen,
            perform=endpoints.change_endpoint,
            report=lambda row: f"Changed: {row}.",
        ),
        QueueOperation(
            name="test",
            label="Send a test",
            icon="send",
            form=OptionalReasonForm,
            effect="Sends a notification of the event “test”. Its delivery shows whether it "
            "arrived.",
            obstacle=lambda row: "" if row.enabled else "The endpoint is disabled.",
            seen=_seen,
            perform=endpoints.send_test,
            report=lambda row: f"A test goes to {row.recipient}; see the deliveries.",
        ),
        SHOW_KEY,
        ROTATE_KEY,
        QueueOperation(
            name="remove",
            label="Remove",
            icon="delete",
            variant="danger",
            role=Role.ADMIN,
            form=OptionalReasonForm,
            effect="The endpoint gets no more notifications; those waiting are canceled. Its "
            "deliveries stay listed.",
            seen=_seen,
            perform=endpoints.remove_endpoint,
            report=lambda row: f"Removed: {row}.",
        ),
    )
    list_operations = (
        QueueOperation(
            name="new",
            label="New endpoint",
            icon="add_alert",
            variant="primary",
            role=Role.ADMIN,
            form=NewEndpointForm,
            effect="The endpoint gets the events of its firm, or of all firms if it is for every "
            "firm. Webhooks are signed with a key; the endpoint's page shows it.",
            perform=endpoints.create_endpoint,
            report=lambda row: f"Created: {row}.",
        ),
    )
    list_display = ("name", "channel", "where", "recipient", "gets", "state")
    list_filter = (
        field_filter("channel", choices(Channel)),
        FirmFilter,
    )
    ordering = ("-id",)
    fields = ("name", "channel", "where", "recipient", "gets", "state", "created_at")
    recipient = column("Sent to", lambda row: row.recipient)
    gets = column("Events", lambda row: ", ".join(row.events) or "only what jobs send to it")
    state = column("State", lambda row: "enabled" if row.enabled else "disabled", label=LABELS)
    empty_text = "No endpoints: alerts are only written to the log."

    def subject(self, row: NotificationEndpoint) -> str:
        """Return the name, the recipient and the firm."""
        return f"{row}, {row.recipient}: {where(row)}"

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Show a signing key."""
        if operation not in (SHOW_KEY, ROTATE_KEY):
            return super().respond(request, operation, row, made)
        context = {
            **self.admin_site.each_context(request),
            "title": f"Signing key of {row}",
            "opts": self.opts,
            "key": made,
            "back": self.filtered_address(request, "change", row.pk),
        }
        page = "admin/jobs/notificationendpoint/key.html"
        return TemplateResponse(request, page, context)


def _search(rows: QuerySet[Delivery], term: str) -> QuerySet[Delivery]:
    span = id_range(term)
    return rows.filter(job_id__range=span) if span else rows.filter(event=term)


def _ended(row: Delivery) -> str:
    code = "" if row.status_code is None else f" ({row.status_code})"
    return f"{row.status}{code}"


def _endpoint(row: Delivery) -> str:
    if row.endpoint_id is None:
        return "-"
    return row.endpoint.name if row.endpoint is not None else "removed"


@admin.register(Delivery)
class DeliveryAdmin(TenantAdmin):
    """Every attempt to send an e-mail or a webhook."""

    list_display = ("about", "to", "endpoint_name", "ended", "firm", "attempt", "sent", "why")
    list_filter = (
        field_filter("status", choices(DeliveryStatus)),
        field_filter("channel", choices(Channel)),
        FirmFilter,
    )
    list_select_related = ("firm", "endpoint")
    search_fields = ("job_id",)
    search = staticmethod(_search)
    search_help_text = "Job id (or its beginning), or event"
    ordering = ("-id",)
    fields = (
        *("about", "channel", "to", "endpoint_name", "firm"),
        *("status", "status_code", "error", "job", "attempt", "started_at", "finished_at"),
    )
    about = column("Event", lambda row: row.event or "-")
    to = column("Sent to", lambda row: row.recipient)
    endpoint_name = column("Endpoint", _endpoint)
    ended = column("Status", lambda row: (row.status, _ended(row)), label=LABELS)
    sent = age_column("Sent", "started_at")
    why = column("Error", lambda row: error_line(row.error))
    job = column("Job", lambda row: link(job_url(row.job_id), row.job_id))
    empty_text = "No recent deliveries."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Fetch the endpoint with the rows; it may be removed."""
        rows: QuerySet[Delivery] = super().get_queryset(request)
        return rows.select_related("firm", "endpoint")
