"""Run now, pause, resume: what the admin does to a schedule."""

from __future__ import annotations

from jobs import registry
from jobs.admin.refusals import refusals
from jobs.models import Schedule
from jobs.operations import schedules
from tenants.admin.acts import Act, Answers, OptionalReasonForm
from tenants.audit import Actor


class RunSchedule(Act):
    """Runs a schedule out of turn."""

    name = "run"
    label = "Run now"
    done = "run"
    icon = "play_arrow"
    variant = "primary"
    form_class = OptionalReasonForm

    def obstacle(self, row: Schedule) -> str:
        """Allow what this code can run, for a firm that is there."""
        if registry.find(row.job_type) is None:
            return f"No code here knows the type {row.job_type}."
        return "" if row.firm.active else f"The firm {row.firm.name} is not active."

    def consequence(self, row: Schedule | None) -> str:
        """Say that its own runs stay."""
        return "It runs once, now. Its next run stays as it is planned, and a paused one paused."

    def seen(self, row: Schedule) -> str:
        """Rest on the last run: somebody else may have run it meanwhile."""
        return f"{row.last_run_at}"

    def perform(self, row: Schedule, answers: Answers, by: Actor) -> None:
        """Enqueue the jobs of one run."""
        with refusals():
            schedules.run_now(row, by=by, reason=answers["reason"])

    def told(self, row: Schedule) -> str:
        """Say that it was run."""
        return f"{row.name} was run."


class PauseSchedule(Act):
    """Stops a schedule."""

    name = "pause"
    label = "Pause"
    done = "paused"
    icon = "pause"
    form_class = OptionalReasonForm

    def obstacle(self, row: Schedule) -> str:
        """Allow what runs."""
        return "" if row.enabled else "The schedule is paused already."

    def consequence(self, row: Schedule | None) -> str:
        """Say what stays."""
        return "It leads to no more jobs until somebody resumes it. Jobs that wait already stay."

    def seen(self, row: Schedule) -> str:
        """Rest on whether it runs."""
        return str(row.enabled)

    def perform(self, row: Schedule, answers: Answers, by: Actor) -> None:
        """Pause it."""
        with refusals():
            schedules.pause(row, by=by, reason=answers["reason"])

    def told(self, row: Schedule) -> str:
        """Say that it stands still."""
        return f"{row.name} is paused."


class ResumeSchedule(Act):
    """Lets a paused schedule run again."""

    name = "resume"
    label = "Resume"
    done = "resumed"
    icon = "play_circle"
    variant = "primary"
    form_class = OptionalReasonForm

    def obstacle(self, row: Schedule) -> str:
        """Allow what stands still."""
        return "The schedule is not paused." if row.enabled else ""

    def consequence(self, row: Schedule | None) -> str:
        """Say what becomes of the runs that were missed."""
        return "It goes on with its next run. What passed while it was paused is not made up for."

    def seen(self, row: Schedule) -> str:
        """Rest on whether it runs."""
        return str(row.enabled)

    def perform(self, row: Schedule, answers: Answers, by: Actor) -> None:
        """Resume it."""
        with refusals():
            schedules.resume(row, by=by, reason=answers["reason"])

    def told(self, row: Schedule) -> str:
        """Say when it runs next."""
        return f"{row.name} runs again, next at {row.next_run_at:%Y-%m-%d %H:%M:%S} UTC."
