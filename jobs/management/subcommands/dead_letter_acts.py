"""`manage.py dlq reprocess|discard|escalate ID`."""

from __future__ import annotations

from abc import abstractmethod

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, NotFound
from jobs.management.subcommands.arguments import json_object
from jobs.management.subcommands.find import find_one
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters as operations
from jobs.operations.escalation import NO_RECIPIENTS, escalation_recipients
from jobs.queries.lists import dead_letters
from jobs.queries.serializers.jobs import DeadLetterSerializer
from jobs.states import Priority
from tenants.cli import command_scope, operator


class DeadLetterAct(Verb):
    """Decides about one dead letter and prints it as it is then."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the dead letter's id."""
        parser.add_argument("id", help="the dead letter's id, or enough of its beginning")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Act, and print the dead letter."""
        with command_scope(options["firm"]):
            row = find_one(dead_letters(), "dead letter", options["id"])
            with refusals():
                self.act(row, options)
            row = dead_letters().get(pk=row.pk)
            shape = DeadLetterSerializer(row).data
            remark = self.remark(row)
        if remark:
            command.stderr.write(remark)
        if options["json"]:
            command.emit(shape)
        else:
            kind = row.original_job.job_type
            command.stdout.write(f"Dead letter {row.pk} ({kind}) is {row.resolution}.")

    def remark(self, row: DeadLetterQueue) -> str:
        """Return what else there is to say about it afterwards."""
        return ""

    @abstractmethod
    def act(self, row: DeadLetterQueue, options: Options) -> None:
        """Do it.

        Raises:
            WrongState: somebody decided before.
        """


class Reprocess(DeadLetterAct):
    """Sends the job round again."""

    name = "reprocess"
    help = "Send the job round again, with an edited payload when one is given."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what may be changed on the way."""
        super().add_arguments(parser)
        parser.add_argument(
            "--payload", type=json_object, metavar="JSON", help="instead of its own"
        )
        parser.add_argument(
            "--priority",
            type=int,
            choices=[level.value for level in Priority],
            help="0 critical, 1 high, 2 normal, 3 low",
        )
        parser.add_argument("--note", default="", help="kept with the decision")

    def act(self, row: DeadLetterQueue, options: Options) -> None:
        """Start a new series of the job."""
        operations.reprocess(
            row,
            by=operator(),
            payload=options["payload"],
            priority=options["priority"],
            note=options["note"],
        )


class Discard(DeadLetterAct):
    """Gives the job up for good."""

    name = "discard"
    help = "Give the job up for good; it becomes failed."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the reason."""
        super().add_arguments(parser)
        parser.add_argument("--reason", required=True, help="why; kept with the decision")

    def act(self, row: DeadLetterQueue, options: Options) -> None:
        """Discard the dead letter."""
        operations.discard(row, options["reason"], by=operator())


class Escalate(DeadLetterAct):
    """Asks somebody to look."""

    name = "escalate"
    help = "Ask somebody by e-mail to look at it; it stays open."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the reason, and whom to ask."""
        super().add_arguments(parser)
        parser.add_argument("--reason", required=True, help="why; kept with the decision")
        parser.add_argument(
            "--to", metavar="USERNAME", help="a member of the firm; else its admins"
        )

    def act(self, row: DeadLetterQueue, options: Options) -> None:
        """Escalate the dead letter.

        Raises:
            NotFound: the firm has no member of this name.
        """
        members = get_user_model().objects.filter(memberships__firm=row.firm_id)
        to = members.filter(username=options["to"]).first() if options["to"] else None
        if options["to"] and to is None:
            raise NotFound(f"{row.firm.slug} has no member named {options['to']!r}")
        operations.escalate(row, options["reason"], to=to, by=operator())

    def remark(self, row: DeadLetterQueue) -> str:
        """Say so when nobody has an address."""
        return "" if escalation_recipients(row.firm_id, row.assigned_to) else NO_RECIPIENTS
