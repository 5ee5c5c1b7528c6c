"""What a verb is, and the command that offers a set of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand

Options = Mapping[str, Any]


class Verb(ABC):
    """One thing a command can do: `manage.py COMMAND VERB`."""

    name: ClassVar[str]
    help: ClassVar[str]

    @abstractmethod
    def add_arguments(self, parser: CommandParser) -> None:
        """Take the verb's arguments; `--firm` and `--json` are there already."""

    @abstractmethod
    def run(self, command: JsonCommand, options: Options) -> None:
        """Do it, and print through `command`.

        Raises:
            Refused: it cannot be done now.
            NotFound: what it was to act on does not exist.
        """


class VerbCommand(JsonCommand):
    """A command made of verbs."""

    verbs: ClassVar[Sequence[Verb]]

    def add_arguments(self, parser: CommandParser) -> None:
        """Give each verb its own parser."""
        choices = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb in self.verbs:
            own = choices.add_parser(verb.name, help=verb.help, description=verb.help)
            self.add_json_option(own)
            own.add_argument("--firm", metavar="SLUG", help="only this firm; else every firm")
            verb.add_arguments(own)

    def handle(self, *_: Any, verb: str, **options: Any) -> None:
        """Run the verb that was named."""
        chosen = next(known for known in self.verbs if known.name == verb)
        chosen.run(self, options)
