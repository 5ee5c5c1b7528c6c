"""`manage.py pauses VERB`: hold work back, and let it go on."""

from __future__ import annotations

from jobs.management.subcommands.pause_verbs import AddPause, ListPauses, ResumePause
from jobs.management.subcommands.verbs import VerbCommand


class Command(VerbCommand):
    """The pauses in the queue."""

    help = "Hold work back, and let it go on."
    verbs = (ListPauses(), AddPause(), ResumePause())
