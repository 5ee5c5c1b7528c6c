"""`manage.py dlq VERB`: look at dead letters, and decide about them."""

from __future__ import annotations

from jobs.management.subcommands.dead_letter_acts import Discard, Escalate, Reprocess
from jobs.management.subcommands.dead_letter_list import ListDeadLetters
from jobs.management.subcommands.dead_letter_show import ShowDeadLetter
from jobs.management.subcommands.verbs import VerbCommand


class Command(VerbCommand):
    """The queue's dead letters."""

    help = "Look at dead letters, and decide about them."
    verbs = (ListDeadLetters(), ShowDeadLetter(), Reprocess(), Discard(), Escalate())
