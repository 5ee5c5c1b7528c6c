"""Starts a management command once more, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_START = (
    "import sys; sys.path[:] = {path!r};"
    " from django.core.management import execute_from_command_line;"
    " execute_from_command_line(sys.argv[1:])"
)


def same_command(argv: Sequence[str]) -> list[str]:
    """Return what runs the command again to which Django was given `argv`; options may be added to it.

    It is this process's own command line, where the arguments come from there: that sets up the same
    things. A program that gives Django others would never hear of an option that is added, and a
    child would take itself for a parent.
    """
    own, given = sys.orig_argv[1:], list(argv[1:])
    if list(argv) == sys.argv and own[-len(given) :] == given:
        return [sys.executable, *own]
    return [sys.executable, "-c", _START.format(path=sys.path), *argv]
