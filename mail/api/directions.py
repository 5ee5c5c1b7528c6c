"""`directions/`: directions, and rules for the model."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import FlagField, TextField
from jobs.api.requests import FirmBody
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FirmRowSerializer, ScopedSettings, ScopedView, scoped_operation
from mail.api.serializers import SwitchBody
from mail.models import MAX_DIRECTION_LENGTH, Direction, DirectionKind, Scope
from mail.services.rules import directions
from tenants.models import Role


class DirectionSerializer(FirmRowSerializer):
    """A direction, or a rule for the model."""

    account_id = serializers.UUIDField(
        allow_null=True, help_text="Null: the direction applies to every mailbox."
    )
    kind = serializers.ChoiceField(DirectionKind.choices)
    scope = serializers.ChoiceField(Scope.choices)
    scope_ref = serializers.CharField(
        help_text="The domain or address to which the scope is limited, or empty."
    )
    text = serializers.CharField()
    enabled = serializers.BooleanField()
    enabled_by = NullableTextField(
        "Who created or changed the direction last; null: not known.",
        source="enabled_by.username",
        default=None,
    )
    created_at = TimestampField()
    changed_at = TimestampField()


class _DirectionSettings(ScopedSettings):
    """The settings of a direction."""

    kind = serializers.ChoiceField(DirectionKind.choices, required=False)
    text = TextField(max_length=MAX_DIRECTION_LENGTH, required=False)
    enabled = FlagField(required=False)


class CreateDirectionBody(_DirectionSettings, FirmBody):
    """A new direction."""

    text = TextField(max_length=MAX_DIRECTION_LENGTH)


class ChangeDirectionBody(_DirectionSettings, SwitchBody):
    """The settings to change; the others stay as they are."""


_WHO = "Only for the mailbox's owner, and for admins who may read the mailbox."
_DIRECTION = OpenApiResponse(DirectionSerializer, "The direction as it is now.")


class Directions(ScopedView):
    """The directions of the caller's firms."""

    resource = tag = "directions"
    model, serializer = Direction, DirectionSerializer

    list = list_operation(
        "List directions",
        "The newest first.",
        serializer=DirectionSerializer,
        rows="directions",
    )
    show = show_operation("Show a direction", "With the mail that it is about.", answer=_DIRECTION)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the directions with the people who wrote them."""
        return super().get_rows(**filters).select_related("enabled_by")

    @operation(
        "Create a direction",
        f"The language model gets this text with every message in its scope. {_WHO}",
        body=CreateDirectionBody,
        answers={HTTPStatus.CREATED: _DIRECTION},
        example=example("A direction", text="Mail from our bank is never advertising."),
    )
    def create(self, _: Request) -> Response:
        body = self.get_body(CreateDirectionBody)
        firm = self.firm_named(body.pop("firm", None), Role.VIEWER)
        self.check_may_change(firm.pk, body.get("account_id"))
        made = directions.create_direction(firm.pk, by=self.actor, **body)
        return Response(self.represent(self.get_rows().get(pk=made.pk)), HTTPStatus.CREATED)

    change = scoped_operation(
        directions.change_direction,
        "Change a direction",
        f"The change applies from the next message on. {_WHO}",
        body=ChangeDirectionBody,
        answer=_DIRECTION,
        example=example("Off", enabled=False, reason="Holiday is over"),
    )

    delete_direction = scoped_operation(
        directions.delete_direction,
        "Delete a direction",
        f"Decisions that the model made with this direction stay. {_WHO}",
        body=SwitchBody,
        answer=OpenApiResponse(DirectionSerializer, "The direction as it was."),
        example=example("Delete", reason="Not needed any more"),
    )
