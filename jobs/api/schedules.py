"""`schedules/`: what runs again and again, and what an operator does to it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import OptionalReason, ScheduleQuery
from jobs.api.views import QueueView
from jobs.engine.redaction import redact_secrets, redact_values
from jobs.models import Schedule
from jobs.operations import schedules
from jobs.queries.lists import list_schedules
from jobs.queries.serializers.schedules import ScheduleDetailSerializer, ScheduleRowSerializer
from tenants.models import Role

_TAG = "schedules"
_SCHEDULE = OpenApiResponse(ScheduleDetailSerializer, "The schedule as it is now.")


class ScheduleView(QueueView):
    """One schedule."""

    def get_schedule(self, pk: UUID, needed: Role = Role.VIEWER) -> Schedule:
        """Return the schedule; see `get_row`."""
        rows: QuerySet[Schedule] = Schedule.objects.select_related("firm")
        return self.get_row(rows, pk, needed)

    def show(self, pk: UUID) -> dict[str, Any]:
        """Return the schedule's shape, as much of it as the caller may read."""
        row = self.get_schedule(pk)
        may_read = self.access.may(Role.OPERATOR, row.firm_id)
        return ScheduleDetailSerializer(
            row, context={"redact": redact_secrets if may_read else redact_values}
        ).data


class ScheduleList(QueueView):
    """The schedules of the caller's firms."""

    query_class = ScheduleQuery

    @operation(
        "schedules_list",
        tag=_TAG,
        summary="List schedules",
        description="The latest made first. Schedules that serve every firm belong to the system "
        "firm, which platform staff alone sees.",
        answers={
            HTTPStatus.OK: OpenApiResponse(page_of(ScheduleRowSerializer), "A page of schedules.")
        },
        query=ScheduleQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of schedules."""
        page = list_schedules(limit=self.query["limit"], cursor=self.query.get("cursor"))
        return Response(
            {"results": ScheduleRowSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )


class ScheduleShow(ScheduleView):
    """A schedule with its payload and its next runs."""

    @operation(
        "schedules_show",
        tag=_TAG,
        summary="Show a schedule",
        description="With its payload and its next runs.",
        answers={HTTPStatus.OK: OpenApiResponse(ScheduleDetailSerializer, "The schedule.")},
    )
    def get(self, request: Request, pk: UUID) -> Response:
        """Return the schedule."""
        return Response(self.show(pk))


class ScheduleRun(ScheduleView):
    """Running a schedule out of turn."""

    @operation(
        "schedules_run",
        tag=_TAG,
        summary="Run a schedule now",
        description="Once, paused or not; its own runs stay as they are. Needs the role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _SCHEDULE},
        examples=[examples.RUN_SCHEDULE],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Run the schedule."""
        row = self.get_schedule(pk, Role.OPERATOR)
        schedules.run_now(row, by=self.actor, reason=self.get_body(OptionalReason)["reason"])
        return Response(self.show(pk))


class SchedulePause(ScheduleView):
    """Stopping a schedule."""

    @operation(
        "schedules_pause",
        tag=_TAG,
        summary="Pause a schedule",
        description="Until it is resumed. Jobs that wait already stay. Needs the role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _SCHEDULE},
        examples=[examples.PAUSE_SCHEDULE],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Pause the schedule."""
        row = self.get_schedule(pk, Role.OPERATOR)
        schedules.pause(row, by=self.actor, reason=self.get_body(OptionalReason)["reason"])
        return Response(self.show(pk))


class ScheduleResume(ScheduleView):
    """Letting a paused schedule run again."""

    @operation(
        "schedules_resume",
        tag=_TAG,
        summary="Resume a schedule",
        description="From its next run on: what passed meanwhile is not made up for. Needs the "
        "role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _SCHEDULE},
        examples=[examples.RESUME_SCHEDULE],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Resume the schedule."""
        row = self.get_schedule(pk, Role.OPERATOR)
        schedules.resume(row, by=self.actor, reason=self.get_body(OptionalReason)["reason"])
        return Response(self.show(pk))
