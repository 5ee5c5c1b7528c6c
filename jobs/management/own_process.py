"""The process of a worker's command: its standard streams, its restarts, and its end."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from django.apps import apps

from jobs.worker.signals import STOP_SIGNALS

STREAMS = ("stdin", "stdout", "stderr")
_START = (
    "import sys; sys.path[:] = {path!r};"
    " from django.core.management import execute_from_command_line;"
    " execute_from_command_line(sys.argv[1:])"
)

# How long threads, and functions called at the process's exit, have for ending by themselves.
LEFT_BEHIND_SECONDS = 5.0
CHECK_SECONDS = 0.5
# A worker that was told to stop has this long for what it runs.
STOP_SECONDS = 30


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


def end_all_the_same() -> None:
    """End this process with code 0 after LEFT_BEHIND_SECONDS, if it has not ended by itself.

    Python waits without limit for the threads of an executor that a handler left, and for threads
    that are no daemons. Nobody else would end the process, because its worker has settled or
    released its jobs.
    """
    threading.Thread(target=_end, name="end-all-the-same", daemon=True).start()


def _end() -> None:
    time.sleep(LEFT_BEHIND_SECONDS)
    # A handler may have left the logging broken, too.
    with suppress(Exception):
        logging.getLogger("jobs").warning(
            "a handler left a thread or an exit hook behind; the worker's process does not "
            "wait for it"
        )
    os._exit(0)


class _Told(Exception):
    """A signal told this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_reloading(command: Sequence[str], tell: Callable[[str], None]) -> int:
    """Run the command, anew after each change of code, until told to stop; return its exit code."""
    for number in STOP_SIGNALS:
        signal.signal(number, _raise)
    while True:
        process = subprocess.Popen(command)  # noqa: S603 - our own command line
        try:
            changed = _wait_for_change()
        except _Told as told:
            # Pass the signal on; if it went to the whole process group, the command has it already.
            process.send_signal(told.number)
            return process.wait()
        tell(f"{changed} changed: restarting.")
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _raise(number: int, _: FrameType | None) -> None:
    raise _Told(number)


def _wait_for_change() -> Path:
    before = dict(_times())
    while True:
        time.sleep(CHECK_SECONDS)
        now = dict(_times())
        for path in before.keys() ^ now.keys():
            return path
        for path, changed_at in now.items():
            if before[path] != changed_at:
                return path


def _times() -> Iterator[tuple[Path, float]]:
    """Yield each Python file of the apps outside of site-packages, and when it changed."""
    for config in apps.get_app_configs():
        folder = Path(config.path)
        if "site-packages" in folder.parts or folder.is_relative_to(sys.prefix):
            continue
        for path in folder.rglob("*.py"):
            try:
                yield path, path.stat().st_mtime
            except FileNotFoundError:
                # It is being replaced.
                continue
