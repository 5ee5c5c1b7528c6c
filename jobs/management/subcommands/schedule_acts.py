"""`manage.py schedules run|pause|resume ID`."""

from __future__ import annotations

from abc import abstractmethod

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand
from jobs.management.subcommands.find import find_one
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import Schedule
from jobs.operations import schedules
from jobs.queries.serializers.schedules import ScheduleRowSerializer
from tenants.cli import command_scope, operator


class ScheduleAct(Verb):
    """Does something to one schedule and prints the schedule as it is then."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the schedule's id, and why."""
        parser.add_argument("id", help="the schedule's id, or enough of its beginning")
        parser.add_argument("--reason", default="", help="why; kept in the audit log")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Act, and print the schedule."""
        with command_scope(options["firm"]):
            rows = Schedule.objects.select_related("firm")
            found = find_one(rows, "schedule", options["id"])
            with refusals():
                told = self.act(found, options["reason"])
            row = ScheduleRowSerializer(rows.get(pk=found.pk)).data
        if options["json"]:
            command.emit(row)
        else:
            command.stdout.write(told)

    @abstractmethod
    def act(self, row: Schedule, reason: str) -> str:
        """Do it, and say what was done.

        Raises:
            WrongState: the schedule does not allow it now.
        """


class RunSchedule(ScheduleAct):
    """Runs a schedule out of turn."""

    name = "run"
    help = "Run a schedule once, now; its own runs stay as they are."

    def act(self, row: Schedule, reason: str) -> str:
        """Enqueue the jobs of one run."""
        jobs = schedules.run_now(row, by=operator(), reason=reason)
        return f"{row.name} was run: {jobs} new jobs."


class PauseSchedule(ScheduleAct):
    """Stops a schedule."""

    name = "pause"
    help = "Pause a schedule until it is resumed."

    def act(self, row: Schedule, reason: str) -> str:
        """Pause it."""
        schedules.pause(row, by=operator(), reason=reason)
        return f"{row.name} is paused."


class ResumeSchedule(ScheduleAct):
    """Lets a paused schedule run again."""

    name = "resume"
    help = "Resume a paused schedule; what passed meanwhile is not made up for."

    def act(self, row: Schedule, reason: str) -> str:
        """Resume it."""
        resumed = schedules.resume(row, by=operator(), reason=reason)
        return f"{row.name} runs again, next at {resumed.next_run_at:%Y-%m-%d %H:%M:%S} UTC."
