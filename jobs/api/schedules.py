"""`schedules/`: schedules, and running, pausing and resuming one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.requests import FirmPageQuery, OptionalReason
from jobs.api.views import ListView, QueueView, example, list_operation
from jobs.models import Schedule
from jobs.operations import schedules
from jobs.queries.serializers.schedules import ScheduleDetailSerializer, ScheduleRowSerializer
from tenants.models import Role

_TAG = "schedules"
_SCHEDULE = OpenApiResponse(ScheduleDetailSerializer, "The schedule as it is now.")


@list_operation(
    "schedules_list",
    tag=_TAG,
    summary="List schedules",
    description="The latest made first. Schedules that serve every firm belong to the system "
    "firm, which platform staff alone sees.",
    rows="schedules",
)
class ScheduleList(ListView):
    """The schedules of the caller's firms."""

    query_class = FirmPageQuery
    serializer = ScheduleRowSerializer

    def get_rows(self, **_: Any) -> QuerySet[Schedule]:
        """Return the schedules."""
        return Schedule.objects.select_related("firm")


class ScheduleView(QueueView):
    """One schedule."""

    def get_schedule(self, pk: UUID, needed: Role = Role.VIEWER) -> Schedule:
        """Return the schedule; see `get_row`."""
        rows: QuerySet[Schedule] = Schedule.objects.select_related("firm")
        return self.get_row(rows, pk, needed)

    def show(self, pk: UUID) -> dict[str, Any]:
        """Return the schedule's JSON, redacted for the caller's role."""
        row = self.get_schedule(pk)
        return ScheduleDetailSerializer(row, context=self.redaction(row.firm_id)).data


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
    """Running a schedule now."""

    @operation(
        "schedules_run",
        tag=_TAG,
        summary="Run a schedule now",
        description="Once, paused or not; its own runs stay as they are. Needs the role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _SCHEDULE},
        examples=[example("Run", reason="The morning's run could not reach the archive")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Run the schedule."""
        row = self.get_schedule(pk, Role.OPERATOR)
        schedules.run_now(row, by=self.actor, **self.get_body(OptionalReason))
        return Response(self.show(pk))


class SchedulePause(ScheduleView):
    """Pausing a schedule."""

    @operation(
        "schedules_pause",
        tag=_TAG,
        summary="Pause a schedule",
        description="Until it is resumed. Jobs that wait already stay. Needs the role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _SCHEDULE},
        examples=[example("Pause", reason="The archive is being moved")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Pause the schedule."""
        row = self.get_schedule(pk, Role.OPERATOR)
        schedules.pause(row, by=self.actor, **self.get_body(OptionalReason))
        return Response(self.show(pk))


class ScheduleResume(ScheduleView):
    """Resuming a schedule."""

    @operation(
        "schedules_resume",
        tag=_TAG,
        summary="Resume a schedule",
        description="From its next run on: runs missed meanwhile are not made up for. Needs the "
        "role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _SCHEDULE},
        examples=[example("Resume", reason="The archive has been moved")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Resume the schedule."""
        row = self.get_schedule(pk, Role.OPERATOR)
        schedules.resume(row, by=self.actor, **self.get_body(OptionalReason))
        return Response(self.show(pk))
