"""`agent-schedules/`: when agents run by themselves; only a mailbox's readers see its schedules."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import FlagField, TextField
from jobs.api.query import choice
from jobs.api.requests import FirmBody
from jobs.api.views import example, list_operation, refusal, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FirmRowSerializer, ScopedView, scoped_operation
from mail.api.serializers import SwitchBody
from mail.api.timetables import TimetableSerializer, TimetableSettings
from mail.models import AgentProfile, AgentSchedule, MailAccount
from mail.models.agent_schedule import MAX_NAME_LENGTH, MAX_PROMPT_LENGTH
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.agents import schedules
from mail.services.mailboxes.content_access import readable
from tenants.models import Role
from tenants.scope import firm_scope

_PROMPT = "What the agent is asked each time."
_PROFILE = "The name of the agent's profile."


class AgentScheduleSerializer(TimetableSerializer, FirmRowSerializer):
    """A timetable by which an agent works in a mailbox."""

    name = serializers.CharField()
    account_id = serializers.UUIDField()
    profile = serializers.CharField(source="profile.name", help_text=_PROFILE)
    prompt = serializers.CharField(help_text=_PROMPT)
    user = NullableTextField(
        "The person on whose behalf the agent runs; null: on the firm's behalf.",
        source="user.username",
        default=None,
    )
    enabled = serializers.BooleanField()
    stopped = NullableTextField("Why Mailroom switched the schedule off; null if Mailroom did not.")
    created_at = TimestampField()
    changed_at = TimestampField()


class _Settings(TimetableSettings):
    """The settings of an agent schedule."""

    name = TextField(max_length=MAX_NAME_LENGTH, required=False)
    account_id = serializers.UUIDField(required=False)
    profile = TextField(max_length=MAX_PROFILE_LENGTH, required=False, help_text=_PROFILE)
    prompt = TextField(max_length=MAX_PROMPT_LENGTH, required=False, help_text=_PROMPT)
    enabled = FlagField(required=False)


class CreateAgentScheduleBody(_Settings, FirmBody):
    """A new schedule."""

    name = TextField(max_length=MAX_NAME_LENGTH)
    account_id = serializers.UUIDField()
    profile = TextField(max_length=MAX_PROFILE_LENGTH, help_text=_PROFILE)
    prompt = TextField(max_length=MAX_PROMPT_LENGTH, help_text=_PROMPT)
    user = choice(
        ("me",),
        "`me`: the agent runs for the caller, and stops when they leave the firm. "
        "Otherwise it runs for the firm.",
    )


class ChangeAgentScheduleBody(_Settings, SwitchBody):
    """The settings to change; the others stay as they are."""


_WHO = "Only for the mailbox's owner, and for admins who may read the mailbox."
_SCHEDULE = OpenApiResponse(AgentScheduleSerializer, "The schedule as it is now.")


class AgentSchedules(ScopedView):
    """The agents' schedules of the caller's firms."""

    resource, tag = "agent_schedules", "agent schedules"
    model, serializer = AgentSchedule, AgentScheduleSerializer

    list = list_operation(
        "List agent schedules",
        "The newest first. Only schedules of mailboxes that the caller may read are listed.",
        serializer=AgentScheduleSerializer,
        rows="agent schedules",
    )
    show = show_operation(
        "Show an agent schedule", "With the dates on which it is due.", answer=_SCHEDULE
    )

    @operation(
        "Create an agent schedule",
        f"The agent works in the mailbox whenever the schedule is due. {_WHO}",
        body=CreateAgentScheduleBody,
        answers={HTTPStatus.CREATED: _SCHEDULE},
        example=example(
            "Every working day", name="Morning", account_id="0198c7a2-0000-7000-8000-000000000000",
            profile="assistant", prompt="Which messages wait for an answer?",
            cron="0 7 * * MON-FRI", time_zone="Europe/Vienna",
        ),
    )  # fmt: skip
    def create(self, _: Request) -> Response:
        body = self.get_body(CreateAgentScheduleBody)
        firm = self.firm_named(body.pop("firm", None), Role.VIEWER)
        user_id = cast("int", self.request.user.pk) if body.pop("user", None) else None
        settings = self._settings(firm.pk, body)
        made = schedules.create_agent_schedule(firm.pk, by=self.actor, user_id=user_id, **settings)
        return Response(self.represent(self.get_rows().get(pk=made.pk)), HTTPStatus.CREATED)

    @operation(
        "Change an agent schedule",
        "The change takes effect with the next run. A run that already waits in the queue "
        f"uses the old settings, unless the mailbox is private. {_WHO}",
        body=ChangeAgentScheduleBody,
        answers={HTTPStatus.OK: _SCHEDULE},
        example=example("Off", enabled=False, reason="Holiday"),
    )
    def change(self, _: Request, **__: UUID) -> Response:
        row = self.get_changeable()
        settings = self._settings(row.firm_id, self.get_body(ChangeAgentScheduleBody))
        schedules.change_agent_schedule(row, by=self.actor, **settings)
        return Response(self.represent(self.get_object()))

    delete_schedule = scoped_operation(
        schedules.delete_agent_schedule,
        "Delete an agent schedule",
        f"The schedule's runs stay. Runs that wait in the queue are canceled. {_WHO}",
        body=SwitchBody,
        answer=OpenApiResponse(AgentScheduleSerializer, "The schedule as it was."),
        example=example("Delete", reason="Not needed any more"),
    )

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the schedules of mailboxes that the caller may read."""
        rows: QuerySet[Any] = super().get_rows().filter(**filters)
        return rows.select_related("profile", "user")

    def _settings(self, firm_id: int, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body in the form that the service takes.

        Raises:
            Refusal: the body names a mailbox that the caller may not read, or an unknown profile.
            PermissionDenied: the mailbox is another person's, and the caller is no admin.
        """
        with firm_scope(firm_id):
            if "account_id" in body:
                accounts = MailAccount.objects.filter(readable(self.request.user.pk))
                if not accounts.filter(pk=body["account_id"]).exists():
                    raise refusal("account_id", "invalid", "This is no mailbox that you may read.")
                self.check_may_change(firm_id, body["account_id"])
            if "profile" in body:
                profile = AgentProfile.objects.filter(name=body.pop("profile")).first()
                if profile is None:
                    raise refusal("profile", "invalid", "No agent of the firm has this name.")
                body["profile_id"] = profile.pk
        return body
