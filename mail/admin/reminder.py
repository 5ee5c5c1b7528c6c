"""Reminders in the admin; only its person may read a reminder's text."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import column
from interfaces.admin.operations import OptionalReasonForm
from jobs.admin.base import age, age_column
from mail.admin.base import if_readable, message_link, status_column
from mail.admin.filters import ReminderStatusFilter
from mail.admin.operation import ChangeRow, DeleteRow, MailOperation, NewRow, changed_at
from mail.admin.scoped import NewScopedForm, PersonalAdmin
from mail.admin.timetable_form import TimetableFields, timetable_text
from mail.models import Reminder, ReminderStatus
from mail.models.reminder import MAX_BODY_LENGTH, MAX_TITLE_LENGTH
from mail.services.reminders import reminders
from tenants.admin.base import FirmFilter
from tenants.models import Firm, Role

STATUS_LABELS: dict[str, str] = {
    ReminderStatus.ACTIVE: "primary",
    ReminderStatus.DELIVERED: "success",
    ReminderStatus.CANCELED: "default",
    ReminderStatus.WITHDRAWN: "default",
}


class ReminderForm(TimetableFields):
    """A reminder's settings."""

    from_row = ("title", "body", *TimetableFields.from_row)
    title = forms.CharField(max_length=MAX_TITLE_LENGTH)
    body = forms.CharField(
        required=False,
        label="Text",
        max_length=MAX_BODY_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


_FIELDS = ("title", "body", *TimetableFields.base_fields)


class NewReminderForm(NewScopedForm, ReminderForm):
    """The new reminder's firm and settings."""

    field_order = ("firm", *_FIELDS)


class ChangeReminderForm(OptionalReasonForm, ReminderForm):
    """A reminder's settings, and the reason of the change."""

    field_order = (*_FIELDS, "reason")


def _create(*, firm: Firm, by: Any, **settings: Any) -> Reminder:
    return reminders.create_reminder(firm.pk, by.user_id, by=by, **settings)


def _has_ended(row: Reminder) -> str:
    ended = row.status in (ReminderStatus.CANCELED, ReminderStatus.WITHDRAWN)
    return f"The reminder is {row.status}." if ended else ""


def _is_over(row: Reminder) -> str:
    return "" if row.status == ReminderStatus.ACTIVE else "The reminder has no further deliveries."


NEW = NewRow(
    label="New reminder",
    role=Role.VIEWER,
    form=NewReminderForm,
    effect="The reminder reaches you when it is due, as your notification preferences say.",
    perform=_create,
    report=lambda row: f"“{row.title}” is stored.",
)
OPERATIONS = (
    ChangeRow(
        variant="primary",
        form=ChangeReminderForm,
        effect="New dates replace the old ones. Deliveries of old dates that already wait in the "
        "queue are skipped.",
        obstacle=_has_ended,
        perform=reminders.change_reminder,
        report=lambda row: f"“{row.title}” is changed.",
    ),
    MailOperation(
        name="cancel",
        label="Cancel",
        icon="alarm_off",
        form=OptionalReasonForm,
        effect="The reminder is canceled. Deliveries that already wait in the queue are skipped.",
        obstacle=_is_over,
        seen=changed_at,
        perform=reminders.cancel_reminder,
        report=lambda _: "The reminder is canceled.",
    ),
    DeleteRow(
        effect="The reminder is deleted. Deliveries that already wait in the queue are skipped.",
        perform=reminders.delete_reminder,
        report=lambda _: "The reminder is deleted.",
    ),
)


@admin.register(Reminder)
class ReminderAdmin(PersonalAdmin):
    """Reminders, the newest first."""

    empty_text = "Nobody is to be reminded of anything."
    list_operations = (NEW,)
    operations = OPERATIONS
    list_display = ("line", "state", "user", "repeats", "due", "delivered", "firm")
    list_select_related = ("firm", "user")
    list_filter = (ReminderStatusFilter, FirmFilter)
    ordering = ("-id",)
    fields = (
        "line", "text", "about", "status", "user", "repeats", "due_at", "queued_at", "delivered_at", "firm",
        "changed_at", "created_at",
    )  # fmt: skip
    line = column("Title", lambda row: if_readable(row, row.title))
    text = column("Text", lambda row: if_readable(row, row.body or "-"))
    about = column(
        "Nobody answered",
        lambda row: message_link(row.message, is_readable=row.is_readable) if row.message else "-",
    )
    state = status_column(STATUS_LABELS)
    repeats = column("Comes", timetable_text)
    due = column("Next", lambda row: age(row.due_at))
    delivered = age_column("Delivered", "delivered_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Annotate the user's own rows as `is_readable`."""
        return reminders.with_readability(super().get_queryset(request), request.user.pk)
