"""`reminders/`: what people want to be reminded of; only a reminder's person sees its text."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar, cast
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import StrictSerializer, TextField
from jobs.api.query import FirmPageQuery, choice
from jobs.api.requests import FirmBody
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.serializers.fields import TimestampField
from mail.api.base import ContentSerializer, MailView
from mail.api.serializers import SwitchBody
from mail.api.timetables import TimetableSerializer, TimetableSettings
from mail.models import Reminder, ReminderStatus
from mail.models.reminder import MAX_BODY_LENGTH, MAX_TITLE_LENGTH
from mail.services.reminders import reminders
from tenants.models import Role

_PRIVATE = "Null unless the reminder is the caller's."
_WHO = "Needs the role admin, unless the reminder is the caller's."


class ReminderSerializer(TimetableSerializer, ContentSerializer):
    """A reminder."""

    content: ClassVar[tuple[str, ...]] = ("title", "body")

    user = serializers.CharField(source="user.username", help_text="Who is reminded.")
    message_id = serializers.UUIDField(
        allow_null=True,
        help_text="Of a follow-up reminder: the message that nobody answered. Null if a "
        "person made the reminder.",
    )
    title = serializers.CharField(allow_null=True, help_text=_PRIVATE)
    body = serializers.CharField(allow_null=True, help_text=_PRIVATE)
    status = serializers.ChoiceField(ReminderStatus.choices)
    delivered_at = TimestampField("When the reminder was last delivered.")
    created_at = TimestampField()
    changed_at = TimestampField()


class ReminderQuery(FirmPageQuery):
    """The page and the filters of reminders."""

    status = choice(
        ReminderStatus.values, "The reminder's status; `active`: with deliveries to come."
    )
    user = choice(("me",), "`me`: only the caller's reminders.")


class _Settings(TimetableSettings):
    """The settings of a reminder."""

    title = TextField(max_length=MAX_TITLE_LENGTH, required=False)
    body = TextField(max_length=MAX_BODY_LENGTH, required=False, allow_blank=True)


class CreateReminderBody(_Settings, FirmBody):
    """A new reminder."""

    title = TextField(max_length=MAX_TITLE_LENGTH)


class ChangeReminderBody(_Settings, SwitchBody):
    """The settings to change; the others stay as they are."""


_REMINDER = OpenApiResponse(ReminderSerializer, "The reminder as it is now.")


class Reminders(MailView):
    """The reminders of the caller's firms."""

    resource = tag = "reminders"
    model, serializer = Reminder, ReminderSerializer

    list = list_operation(
        "List reminders",
        "The newest first. The texts of other people's reminders are not shown.",
        serializer=ReminderSerializer,
        rows="reminders",
        query=ReminderQuery,
    )
    show = show_operation("Show a reminder", "With the dates on which it is due.", answer=_REMINDER)

    @operation(
        "Create a reminder",
        "The reminder is the caller's. It is delivered once, at `due_at`, or again and "
            "again, by a cron expression or an interval.",
        body=CreateReminderBody,
        answers={HTTPStatus.CREATED: _REMINDER},
        example=example(
            "Every working day", title="Look at the waiting answers", cron="0 9 * * MON-FRI",
            time_zone="Europe/Vienna",
        ),
    )  # fmt: skip
    def create(self, _: Request) -> Response:
        body = self.get_body(CreateReminderBody)
        firm = self.firm_named(body.pop("firm", None), Role.VIEWER)
        user_id = cast("int", self.request.user.pk)
        made = reminders.create_reminder(firm.pk, user_id, by=self.actor, **body)
        return Response(self.represent(self.get_rows().get(pk=made.pk)), HTTPStatus.CREATED)

    @operation(
        "Change a reminder",
        "New dates replace the old ones. Deliveries of old dates that already wait in the queue "
        "are skipped. Only for the person whose reminder this is. 409 if the reminder is "
        "canceled or withdrawn.",
        body=ChangeReminderBody,
        answers={HTTPStatus.OK: _REMINDER},
        example=example("Later", cron="0 10 * * MON-FRI", reason="The meeting was moved"),
    )
    def change(self, _: Request, **__: UUID) -> Response:
        return self._operate(reminders.change_reminder, ChangeReminderBody)

    @operation(
        "Cancel a reminder",
        f"Deliveries that already wait in the queue are skipped. {_WHO} 409 if the reminder has "
        "no further deliveries.",
        body=SwitchBody,
        answers={HTTPStatus.OK: _REMINDER},
        example=example("Cancel", reason="Done already"),
    )
    def cancel(self, _: Request, **__: UUID) -> Response:
        return self._operate(reminders.cancel_reminder, SwitchBody, Role.ADMIN)

    @operation(
        "Delete a reminder",
        f"Deliveries that already wait in the queue are skipped. {_WHO}",
        body=SwitchBody,
        answers={HTTPStatus.OK: OpenApiResponse(ReminderSerializer, "The reminder as it was.")},
        example=example("Delete", reason="Not needed any more"),
    )
    def delete_reminder(self, _: Request, **__: UUID) -> Response:
        return self._operate(reminders.delete_reminder, SwitchBody, Role.ADMIN)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the reminders, annotated with whether they are the caller's."""
        if filters.pop("user", None) is not None:
            filters["user_id"] = self.request.user.pk
        rows = super().get_rows().filter(**filters).select_related("user")
        return reminders.with_readability(rows, self.request.user.pk)

    def _operate(
        self, operate: Any, body_of: type[StrictSerializer], others: Role | None = None
    ) -> Response:
        """Operate for the reminder's person, or for a caller with the role `others`."""
        row = self.get_object()
        if not row.is_readable:
            if others is None:
                self.permission_denied(self.request, "This is for the reminder's person alone.")
            self.check_role(others, row.firm_id)
        shown = self.represent(row)
        operate(row, by=self.actor, **self.get_body(body_of))
        now = self.get_rows().filter(pk=row.pk).first()
        return Response(shown if now is None else self.represent(now))
