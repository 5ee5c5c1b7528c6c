"""`manage.py jobs why ID`."""

from __future__ import annotations

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, printable
from jobs.management.subcommands.find import find_one
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import JobQueue
from jobs.queries.serializers.fields import iso
from jobs.queries.serializers.jobs import WaitReasonSerializer
from jobs.queries.why_waiting import why_waiting
from jobs.states import Status
from tenants.cli import command_scope


class WhyWaiting(Verb):
    """Says why a job is not running."""

    name = "why"
    help = "Say why a job is not running."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the job's id."""
        parser.add_argument("id", help="the job's id, or enough of its beginning")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print each thing that stands in the job's way."""
        with command_scope(options["firm"]):
            job = find_one(JobQueue.objects.select_related("firm"), "job", options["id"])
            reasons = why_waiting(job)
        if options["json"]:
            rows = WaitReasonSerializer(reasons, many=True).data
            command.emit({"job_id": str(job.job_id), "status": job.status, "why_waiting": rows})
            return
        if job.status != Status.PENDING:
            command.stdout.write(f"It is not waiting: its status is {job.status}.")
        elif not reasons:
            command.stdout.write("Nothing is in its way: a worker will take it in its turn.")
        for reason in reasons:
            until = f", until {iso(reason.until)}" if reason.until is not None else ""
            command.stdout.write(printable(reason.detail) + until)
