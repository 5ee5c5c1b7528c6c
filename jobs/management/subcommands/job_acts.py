"""`manage.py jobs retry ID` and `manage.py jobs cancel ID`."""

from __future__ import annotations

from abc import abstractmethod

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand
from jobs.management.subcommands.find import find_one
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.queries.serializers.jobs import JobRowSerializer
from jobs.states import Status
from tenants.cli import command_scope, operator


class JobAct(Verb):
    """Does something to one job and prints the job as it is then."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the job's id, and why."""
        parser.add_argument("id", help="the job's id, or enough of its beginning")
        parser.add_argument("--reason", default="", help="why; kept in the audit log")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Act, and print the job."""
        with command_scope(options["firm"]):
            jobs = JobQueue.objects.select_related("firm")
            job = find_one(jobs, "job", options["id"])
            with refusals():
                self.act(job, options["reason"])
            job = jobs.get(pk=job.pk)
            row = JobRowSerializer(job).data
        if options["json"]:
            command.emit(row)
        else:
            command.stdout.write(self.told(job))

    @abstractmethod
    def act(self, job: JobQueue, reason: str) -> None:
        """Do it.

        Raises:
            WrongState: the job's status does not allow it.
        """

    @abstractmethod
    def told(self, job: JobQueue) -> str:
        """Return what to tell about the job as it is now."""


class RetryJob(JobAct):
    """Sends a job round again."""

    name = "retry"
    help = "Send a dead, failed or canceled job round again; its attempts start over."

    def act(self, job: JobQueue, reason: str) -> None:
        """Start a new series of the job."""
        jobs.retry(job, by=operator(), reason=reason)

    def told(self, job: JobQueue) -> str:
        """Say that it waits again."""
        return f"{job.job_type} {job.job_id} is {job.status} again (series {job.series})."


class CancelJob(JobAct):
    """Stops a job."""

    name = "cancel"
    help = "Cancel a pending job at once; ask a running one to stop."

    def act(self, job: JobQueue, reason: str) -> None:
        """Cancel the job, or ask its handler to stop."""
        jobs.cancel(job, by=operator(), reason=reason)

    def told(self, job: JobQueue) -> str:
        """Say whether it is over or was asked to stop."""
        if job.status == Status.CANCELED:
            return f"{job.job_type} {job.job_id} is canceled."
        return f"{job.job_type} {job.job_id} is {job.status} and was asked to stop."
