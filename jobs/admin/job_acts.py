"""Retry and cancel: what the admin does to a job."""

from __future__ import annotations

from jobs.admin.refusals import refusals
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.states import IN_FLIGHT, RETRYABLE, Status
from tenants.admin.acts import Act, Answers, OptionalReasonForm
from tenants.audit import Actor


class RetryJob(Act):
    """Sends a job round again."""

    name = "retry"
    label = "Retry"
    done = "retried"
    icon = "replay"
    variant = "primary"
    form_class = OptionalReasonForm
    bulk_form_class = OptionalReasonForm

    def obstacle(self, row: JobQueue) -> str:
        """Allow what ended without completing."""
        if row.status in RETRYABLE:
            return ""
        return f"The job is {row.status}; only a dead, failed or canceled one can be retried."

    def consequence(self, row: JobQueue | None) -> str:
        """Say that it starts over."""
        return (
            "It goes round again with its payload as it is, and its attempts start over. "
            "An open dead letter of it closes as reprocessed."
        )

    def seen(self, row: JobQueue) -> str:
        """Rest on the series: a job retried meanwhile may have failed again since."""
        return f"{row.series} {row.status}"

    def perform(self, row: JobQueue, answers: Answers, by: Actor) -> None:
        """Start a new series of the job."""
        with refusals():
            jobs.retry(row, by=by, reason=answers["reason"])

    def told(self, row: JobQueue) -> str:
        """Say that it waits again."""
        return f"{row.job_type} is {row.status} again (series {row.series})."


class CancelJob(Act):
    """Stops a job."""

    name = "cancel"
    label = "Cancel job"
    done = "canceled"
    icon = "block"
    form_class = OptionalReasonForm

    def obstacle(self, row: JobQueue) -> str:
        """Allow what is not over, and was not asked to stop before."""
        if row.status == Status.PENDING:
            return ""
        if row.status not in IN_FLIGHT:
            return f"The job is over: it is {row.status}."
        if row.cancel_requested_at is None:
            return ""
        return "The job was asked to stop before; it stops at its next checkpoint."

    def consequence(self, row: JobQueue | None) -> str:
        """Say whether it stops at once."""
        if row is not None and row.status in IN_FLIGHT:
            return "It runs: its handler is asked to stop at its next checkpoint."
        return "It has not started: it is canceled at once. It can be retried later."

    def seen(self, row: JobQueue) -> str:
        """Rest on whether it runs: that decides between stopping and asking."""
        return f"{row.series} {'running' if row.status in IN_FLIGHT else row.status}"

    def perform(self, row: JobQueue, answers: Answers, by: Actor) -> None:
        """Cancel the job, or ask its handler to stop."""
        with refusals():
            jobs.cancel(row, by=by, reason=answers["reason"])

    def told(self, row: JobQueue) -> str:
        """Say whether it is over or was asked to stop."""
        if row.status == Status.CANCELED:
            return f"{row.job_type} is canceled."
        return f"{row.job_type} was asked to stop."
