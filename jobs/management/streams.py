"""Standard streams that a process was started without."""

from __future__ import annotations

import os
import sys

STREAMS = ("stdin", "stdout", "stderr")


def open_missing_streams() -> None:
    """Lead each standard stream that is closed to nowhere.

    Else the next file or socket takes its number, and children print into that.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is not None:
            continue
        handle = os.open(os.devnull, os.O_RDWR)
        if handle == number:
            os.set_inheritable(handle, True)  # noqa: FBT003 - it takes no names
        setattr(sys, name, os.fdopen(handle, "r" if number == 0 else "w", encoding="utf-8"))
