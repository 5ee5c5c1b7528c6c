"""The process of a worker's command: its standard streams, and how to start it once more."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

STREAMS = ("stdin", "stdout", "stderr")
_START = (
    "import sys; sys.path[:] = {path!r};"
    " from django.core.management import execute_from_command_line;"
    " execute_from_command_line(sys.argv[1:])"
)


def open_missing_streams() -> None:
    """Open each closed standard stream on the null device.

    Otherwise the next file or socket would get its number, and children would print into that.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is not None:
            continue
        handle = os.open(os.devnull, os.O_RDWR)
        if handle == number:
            os.set_inheritable(handle, True)  # noqa: FBT003 - it takes no names
        setattr(sys, name, os.fdopen(handle, "r" if number == 0 else "w", encoding="utf-8"))


def same_command(argv: Sequence[str]) -> list[str]:
    """Return a command line that runs the command `argv` again; options may be appended to it.

    If `argv` comes from this process's own command line, that is returned, because it sets up the
    same things. A program that gives Django other arguments would ignore an appended option, and a
    child would act as a parent; for such a program, a new interpreter runs `argv`.
    """
    own, given = sys.orig_argv[1:], list(argv[1:])
    if list(argv) == sys.argv and own[-len(given) :] == given:
        return [sys.executable, *own]
    return [sys.executable, "-c", _START.format(path=sys.path), *argv]
