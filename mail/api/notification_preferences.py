"""`notification-preferences/`: how people want to be notified; people see their own."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import FlagField, StrictSerializer, TextField
from jobs.api.requests import FirmBody
from jobs.api.views import example, list_operation, show_operation
from jobs.models.notifications import MAX_TARGET_LENGTH
from jobs.queries.serializers.fields import TimestampField
from mail.api.base import FirmRowSerializer, MailView
from mail.api.serializers import SwitchBody
from mail.models import NotificationPreference
from mail.models.recurring import MAX_ZONE_LENGTH
from mail.services.reminders import preferences
from tenants.models import Role

_FROM = "When quiet hours begin, in which nothing is delivered; null: no quiet hours."
_UNTIL = "When quiet hours end; what waited is then delivered."
_DIGEST = "The time of day at which a digest of the person's mailboxes is sent; null: no digest."
_ZONE = "The person's time zone, such as Europe/Vienna."


@extend_schema_field({"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?$"})
class TimeOfDayField(serializers.TimeField):
    """A time of day, such as 22:00."""

    def __init__(self, help_text: str, **options: Any) -> None:
        formats = ["%H:%M", "%H:%M:%S"]
        super().__init__(
            help_text=help_text,
            allow_null=True,
            format="%H:%M:%S",
            input_formats=formats,
            **options,
        )

    def to_internal_value(self, value: Any) -> Any:
        """Return the time; in JSON only a string can be one."""
        if not isinstance(value, str):
            self.fail("invalid", format="hh:mm[:ss]")
        return super().to_internal_value(value)


class PreferenceSerializer(FirmRowSerializer):
    """How a person wants to be notified."""

    user = serializers.CharField(source="user.username", help_text="Who is notified.")
    time_zone = serializers.CharField(help_text=_ZONE)
    quiet_from = TimeOfDayField(_FROM)
    quiet_until = TimeOfDayField(_UNTIL)
    email = serializers.BooleanField(
        help_text="Whether to notify the person at their account's e-mail address."
    )
    discord = serializers.SerializerMethodField(help_text="Whether a Discord webhook is stored.")
    digest_at = TimeOfDayField(_DIGEST)
    next_digest_at = TimestampField("When the next digest is due; null: none.", source="due_at")
    changed_at = TimestampField()

    def get_discord(self, row: NotificationPreference) -> bool:
        """Say whether a webhook is stored, as its URL is secret."""
        return bool(row.discord_webhook)


class _Settings(StrictSerializer):
    """The settings of a preference."""

    time_zone = TextField(required=False, max_length=MAX_ZONE_LENGTH, help_text=_ZONE)
    quiet_from = TimeOfDayField(_FROM, required=False)
    quiet_until = TimeOfDayField(_UNTIL, required=False)
    digest_at = TimeOfDayField(_DIGEST, required=False)
    email = FlagField(
        required=False, help_text="Whether to notify the caller at their account's e-mail address."
    )
    discord_webhook = TextField(
        required=False,
        allow_blank=True,
        write_only=True,
        max_length=MAX_TARGET_LENGTH,
        help_text="The URL of a Discord webhook; empty: none. It is stored encrypted, and "
        "shown to nobody.",
    )


class CreatePreferenceBody(_Settings, FirmBody):
    """The caller's preferences."""

    time_zone = TextField(max_length=MAX_ZONE_LENGTH, help_text=_ZONE)


class ChangePreferenceBody(_Settings, SwitchBody):
    """The settings to change; the others stay as they are."""


_PREFERENCE = OpenApiResponse(PreferenceSerializer, "The preferences as they are now.")


class Preferences(MailView):
    """The caller's notification preferences, and those of the firms whose admin they are."""

    resource, tag = "notification_preferences", "notification preferences"
    model, serializer = NotificationPreference, PreferenceSerializer

    list = list_operation(
        "List notification preferences",
        "The caller's own preferences, and everybody's in firms where the caller is an admin. "
        "People without preferences are notified by e-mail at any time.",
        serializer=PreferenceSerializer,
        rows="notification preferences",
    )
    show = show_operation(
        "Show notification preferences", "The webhook's URL is not shown.", answer=_PREFERENCE
    )

    @operation(
        "Create notification preferences",
        "Creates the caller's preferences in a firm. 409 if the caller already has some there.",
        body=CreatePreferenceBody,
        answers={HTTPStatus.CREATED: _PREFERENCE},
        example=example(
            "No reminders at night, a digest in the morning", time_zone="Europe/Vienna",
            quiet_from="22:00", quiet_until="07:00", digest_at="07:30",
        ),
    )  # fmt: skip
    def create(self, _: Request) -> Response:
        body = self.get_body(CreatePreferenceBody)
        firm = self.firm_named(body.pop("firm", None), Role.VIEWER)
        user_id = cast("int", self.request.user.pk)
        made = preferences.create_preference(firm.pk, user_id, by=self.actor, **body)
        return Response(self.represent(self.get_rows().get(pk=made.pk)), HTTPStatus.CREATED)

    @operation(
        "Change notification preferences",
        "The change applies to reminders and digests that are delivered from now on, including "
        "those that already wait. Only for the person whose preferences these are.",
        body=ChangePreferenceBody,
        answers={HTTPStatus.OK: _PREFERENCE},
        example=example("Not by e-mail", email=False, reason="Discord is enough"),
    )
    def change(self, _: Request, **__: UUID) -> Response:
        row = self.get_object()
        if row.user_id != self.request.user.pk:
            self.permission_denied(self.request, "Only the person may change their preferences.")
        body = self.get_body(ChangePreferenceBody)
        preferences.change_preference(row.firm_id, row.user_id, by=self.actor, **body)
        return Response(self.represent(self.get_object()))

    @operation(
        "Reset notification preferences",
        "The preferences are deleted. The person is then notified by e-mail at any time, and "
        "gets no digest. Needs the role admin, unless these are the caller's own.",
        body=SwitchBody,
        answers={
            HTTPStatus.OK: OpenApiResponse(PreferenceSerializer, "The preferences as they were.")
        },
        example=example("Reset", reason="The webhook is gone"),
    )
    def reset(self, _: Request, **__: UUID) -> Response:
        """Delete the preferences; everybody who may see them may do this."""
        row = self.get_object()
        shown = self.represent(row)
        preferences.reset_preference(row, by=self.actor, **self.get_body(SwitchBody))
        return Response(shown)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the preferences that the caller may see."""
        rows = super().get_rows().filter(**filters).select_related("user")
        return preferences.visible(rows, self.request.user.pk, self.access.firms(Role.ADMIN))
