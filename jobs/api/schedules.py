"""`schedules/`: schedules, their runs, and running, pausing and resuming one."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse

from jobs.api.query import PageQuery
from jobs.api.views import QueueView, example, list_operation, row_operation, show_operation
from jobs.models import Schedule, ScheduleRun
from jobs.operations import schedules
from jobs.queries.lists import runs_of
from jobs.queries.serializers.schedules import (
    ScheduleDetailSerializer,
    ScheduleRowSerializer,
    ScheduleRunSerializer,
)

_SCHEDULE = OpenApiResponse(ScheduleDetailSerializer, "The schedule as it is now.")


class Schedules(QueueView):
    """The schedules of the caller's firms."""

    resource = tag = "schedules"
    model, serializer = Schedule, ScheduleDetailSerializer

    list = list_operation(
        "List schedules",
        "The latest first. Schedules that serve every firm belong to the system firm, which only "
        "platform staff sees.",
        serializer=ScheduleRowSerializer,
        rows="schedules",
    )
    show = show_operation(
        "Show a schedule",
        "With its payload and its next runs.",
        answer=OpenApiResponse(ScheduleDetailSerializer, "The schedule."),
    )
    run = row_operation(
        schedules.run_now,
        "Run a schedule now",
        (
            "The schedule runs once, now, even if it is paused. Its next planned run does not "
            "change. Needs the role operator."
        ),
        answer=_SCHEDULE,
        example=example("Run", reason="The morning's run could not reach the archive"),
    )
    pause = row_operation(
        schedules.pause,
        "Pause a schedule",
        (
            "The schedule enqueues no more jobs until it is resumed. Jobs that are waiting stay. "
            "Needs the role operator."
        ),
        answer=_SCHEDULE,
        example=example("Pause", reason="The archive is being moved"),
    )
    resume = row_operation(
        schedules.resume,
        "Resume a schedule",
        (
            "The schedule goes on with its next run. Runs that it missed while paused are "
            "skipped. Needs the role operator."
        ),
        answer=_SCHEDULE,
        example=example("Resume", reason="The archive has been moved"),
    )


class ScheduleRuns(QueueView):
    """The runs of one schedule of the caller's firms."""

    resource, tag = "schedule-runs", "schedules"
    model, serializer = ScheduleRun, ScheduleRunSerializer

    list = list_operation(
        "List a schedule's runs",
        "The latest first, with what became of their jobs. Runs are kept for 90 days, or as long "
        "as finished jobs if that is longer.",
        serializer=ScheduleRunSerializer,
        rows="runs",
        query=PageQuery,
    )

    def get_rows(self, **_: Any) -> QuerySet[ScheduleRun]:
        """Return the runs of the schedule that the URL names.

        Raises:
            NotFound: the caller sees no such schedule.
        """
        return runs_of(self.get_row(Schedule.objects.all(), self.kwargs["pk"]))
