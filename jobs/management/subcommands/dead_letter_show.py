"""`manage.py dlq show ID`."""

from __future__ import annotations

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand
from jobs.management.subcommands.find import find_one
from jobs.management.subcommands.verbs import Options, Verb
from jobs.queries.lists import dead_letters
from jobs.queries.serializers.jobs import DeadLetterSerializer
from tenants.cli import command_scope


class ShowDeadLetter(Verb):
    """Shows one dead letter."""

    name = "show"
    help = "Show one dead letter: why its job stopped, and what was decided."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the dead letter's id."""
        parser.add_argument("id", help="the dead letter's id, or enough of its beginning")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print the dead letter."""
        with command_scope(options["firm"]):
            row = DeadLetterSerializer(find_one(dead_letters(), "dead letter", options["id"])).data
        if options["json"]:
            command.emit(row)
            return
        facts = [(name.replace("_", " "), value) for name, value in row.items() if value]
        command.facts(f"Dead letter {row['id']}", facts)
        command.stdout.write(f"\nIts job: manage.py jobs show {row['job_id']}")
