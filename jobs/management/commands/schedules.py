"""`manage.py schedules VERB`: look at schedules, run, pause and resume them."""

from __future__ import annotations

from jobs.management.subcommands.schedule_acts import PauseSchedule, ResumeSchedule, RunSchedule
from jobs.management.subcommands.schedule_list import ListSchedules
from jobs.management.subcommands.verbs import VerbCommand


class Command(VerbCommand):
    """The queue's schedules."""

    help = "Look at schedules; run, pause and resume them."
    verbs = (ListSchedules(), RunSchedule(), PauseSchedule(), ResumeSchedule())
