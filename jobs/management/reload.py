"""Starts a command again whenever a file of the project's code changes: for development."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from django.apps import apps

from jobs.worker.signals import STOP_SIGNALS

CHECK_SECONDS = 0.5
# A worker that was told to stop has this long for what it runs.
STOP_SECONDS = 30


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
