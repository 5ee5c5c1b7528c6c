"""`manage.py breakers VERB`: which types are not tried, and an operator's override."""

from __future__ import annotations

from jobs.management.subcommands.breaker_verbs import CloseBreaker, ListBreakers, OpenBreaker
from jobs.management.subcommands.verbs import VerbCommand


class Command(VerbCommand):
    """The circuit breakers of the queue."""

    help = "See which types are not tried for which firm; open and close by hand."
    verbs = (ListBreakers(), OpenBreaker(), CloseBreaker())
