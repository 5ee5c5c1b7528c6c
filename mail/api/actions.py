"""`actions/`: the changes to messages that were asked for, and their undo."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery, UUIDField
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.query import FirmPageQuery
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import ContentView, FirmRowSerializer
from mail.api.serializers import SwitchBody
from mail.models import Action, ActionLink, ActionStatus, ActionType, Relation
from mail.services.actions.actions import irreversible_reason
from mail.services.actions.undo import request_undo, snoozed_again, why_not_undoable_with
from tenants.models import Role


class ActionSerializer(FirmRowSerializer):
    """An action: what was asked for, how far it got, and whether it can be undone."""

    account_id = serializers.UUIDField()
    message_id = serializers.UUIDField()
    decision_id = serializers.UUIDField(
        allow_null=True, help_text="The decision that asked for the action."
    )
    action_type = serializers.ChoiceField(ActionType.choices)
    parameters = serializers.SerializerMethodField(
        help_text="Null unless the caller may read the mailbox."
    )
    status = serializers.ChoiceField(ActionStatus.choices)
    error = NullableTextField("Why the action failed.")
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that executes the action.")
    undoable = serializers.SerializerMethodField()
    why_not_undoable = serializers.SerializerMethodField(
        help_text="Why the action cannot be undone, now or ever; null if it can be undone now."
    )
    undo_id = serializers.UUIDField(
        allow_null=True,
        help_text="The undo of this action; null if there is none, or if the undo failed.",
    )
    wake_at = TimestampField("When a snoozed message returns to the inbox.")
    created_at = TimestampField()
    executed_at = TimestampField()

    def get_parameters(self, action: Action) -> dict[str, Any] | None:
        """Return the parameters to a reader of the mailbox."""
        parameters: dict[str, Any] = action.parameters
        return parameters if action.is_readable else None  # type: ignore[attr-defined]  # annotated

    def get_undoable(self, action: Action) -> bool:
        """Say whether the action can be undone now."""
        return not self._why_not(action)

    def get_why_not_undoable(self, action: Action) -> str | None:
        """Return why the action cannot be undone."""
        never = irreversible_reason(
            action.account, ActionType(action.action_type), action.parameters
        )
        return never or self._why_not(action) or None

    def _why_not(self, action: Action) -> str:
        marked: Any = action
        return why_not_undoable_with(action, marked.undo_status, again=marked.snoozed_again)


class ActionQuery(FirmPageQuery):
    """The page and the filters of actions."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    message_id = serializers.UUIDField(required=False, help_text="On this message.")
    action_type = serializers.ChoiceField(ActionType.choices, required=False)
    status = serializers.ChoiceField(ActionStatus.choices, required=False)


class Actions(ContentView):
    """The actions of the caller's firms."""

    resource = tag = "actions"
    model, serializer = Action, ActionSerializer

    list = list_operation(
        "List actions",
        "The most recently requested first; undos are actions, too.",
        serializer=ActionSerializer,
        rows="actions",
        query=ActionQuery,
    )
    show = show_operation(
        "Show an action",
        "How far the action got, and whether it can be undone.",
        answer=OpenApiResponse(ActionSerializer, "The action."),
    )

    @operation(
        "Undo an action",
        "Takes back what the action changed. Anything that somebody has changed since then is "
        "left as it is. Needs the role operator. 409 if the action cannot be undone, or has an "
        "undo already.",
        body=SwitchBody,
        answers={
            HTTPStatus.ACCEPTED: OpenApiResponse(ActionSerializer, "The undo, in the queue."),
            HTTPStatus.OK: OpenApiResponse(
                ActionSerializer,
                "The undo, already completed, because the action had changed nothing.",
            ),
        },
        example=example("Undo", reason="It was needed"),
    )
    def undo(self, _: Request, **__: UUID) -> Response:
        action = self.get_object(Role.OPERATOR)
        body = self.get_body(SwitchBody)
        undo = request_undo(action, by=self.actor, **body)
        completed = undo.status == ActionStatus.COMPLETED
        status = HTTPStatus.OK if completed else HTTPStatus.ACCEPTED
        return Response(self.represent(self.get_rows().get(pk=undo.pk)), status)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the actions, each with its undo."""
        undos = ActionLink.objects.filter(
            effect=OuterRef("pk"), relation=Relation.UNDO_OF, counts=True
        )
        rows: QuerySet[Any] = (
            super().get_rows(**filters).select_related("firm", "account", "message")
        )
        annotated: QuerySet[Any] = rows.defer("message__html", "message__text").annotate(
            undo_id=Subquery(undos.values("cause_id")[:1], output_field=UUIDField()),
            undo_status=Subquery(undos.values("cause__status")[:1]),
            snoozed_again=snoozed_again(),
        )
        return annotated
