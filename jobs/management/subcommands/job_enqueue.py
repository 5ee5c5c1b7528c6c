"""`manage.py jobs enqueue TYPE --payload JSON`."""

from __future__ import annotations

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand
from jobs.management.subcommands.arguments import json_object, moment, seconds
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import JobQueue
from jobs.queries.serializers.jobs import JobRowSerializer
from jobs.queue import enqueue
from jobs.states import Priority
from tenants.cli import command_scope


class EnqueueJob(Verb):
    """Enqueues a job."""

    name = "enqueue"
    help = "Enqueue a job; without --firm it belongs to the only firm there is."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the type, the payload and what `enqueue()` takes."""
        parser.add_argument("type", help="the job type")
        parser.add_argument("--payload", type=json_object, default={}, metavar="JSON")
        start = parser.add_mutually_exclusive_group()
        start.add_argument("--at", type=moment, metavar="ISO", help="not before this time")
        start.add_argument(
            "--delay", type=seconds, metavar="S", help="not before S seconds from now"
        )
        parser.add_argument(
            "--priority",
            type=int,
            choices=[level.value for level in Priority],
            help="0 critical, 1 high, 2 normal, 3 low",
        )
        parser.add_argument("--idempotency-key", metavar="K")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Enqueue the job and print it."""
        with command_scope(options["firm"]) as firm:
            with refusals():
                result = enqueue(
                    options["type"],
                    options["payload"],
                    firm=firm,
                    at=options["at"],
                    delay=options["delay"],
                    priority=options["priority"],
                    idempotency_key=options["idempotency_key"],
                )
            job = JobQueue.objects.select_related("firm").get(pk=result.job_id)
            row = JobRowSerializer(job).data
        if options["json"]:
            command.emit({**row, "created": result.created})
        elif result.created:
            command.stdout.write(f"Enqueued {job.job_type} {job.job_id}.")
        else:
            command.stdout.write(f"{job.job_type} {job.job_id} has this key already: {job.status}.")
