"""Reads a file in a process of its own, so that a hostile file can only end that process."""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mail.documents.child import EXIT_OUT_OF_MEMORY, MAX_CHARS
from mail.documents.kinds import Kind, Unread

START: Final = (
    "import sys; sys.path[:] = sys.argv[4:]; from mail.documents.child import main;"
    " main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))"
)
# In JSON, a character takes at most two escapes of six characters each.
MAX_ANSWER: Final = 12 * MAX_CHARS + 1000
CHUNK: Final = 2**16
# Signals from outside, not caused by the file: from whoever stops the service, or from the kernel
# when the machine is out of memory.
_FROM_OUTSIDE: Final = (
    signal.SIGKILL,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
)
POLL_SECONDS: Final = 0.01


@dataclass(frozen=True)
class Limits:
    """What reading one file may use: address space, processor time, and twice that by the clock."""

    memory_mb: int
    seconds: int


@dataclass(frozen=True)
class Extraction:
    """The text of a file, why it was not read or only in part, and the peak memory of the process.

    `interrupted`: the file may not be the cause, so that reading it again may succeed.
    """

    text: str = ""
    detected_type: str = ""
    reason: str = ""
    peak_memory_mb: float = 0.0
    interrupted: bool = False


def extract_text(data: bytes, kind: Kind, limits: Limits) -> Extraction:
    """Return the file's text, or why there is none; never raises because of the file."""
    deadline = time.monotonic() + 2 * limits.seconds
    with tempfile.TemporaryFile() as source:
        source.write(data)
        source.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own command line
            [
                sys.executable, "-I", "-c", START,
                kind.value, str(limits.memory_mb * 2**20), str(limits.seconds), *sys.path,
            ],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            process_group=0,
        )  # fmt: skip
    try:
        answer = _answer(process, deadline)
        if answer is None:
            _kill(process)
        usage = _wait(process, deadline)
    finally:
        if process.returncode is None:
            _kill(process)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    peak_memory_mb = usage.ru_maxrss / 1024
    if process.returncode == 0 and answer:
        with suppress(ValueError, TypeError):
            return Extraction(**json.loads(answer), peak_memory_mb=peak_memory_mb)
    is_late = time.monotonic() >= deadline
    if answer is None and not is_late:
        return Extraction(reason=Unread.DIED.value, peak_memory_mb=peak_memory_mb)
    reason = _cause(process.returncode, is_late=is_late)
    # The time ran out, but mostly while other processes had the processor.
    is_starved = is_late and usage.ru_utime + usage.ru_stime < limits.seconds / 2
    is_ended = not is_late and -process.returncode in _FROM_OUTSIDE
    return Extraction(
        reason=reason.value, peak_memory_mb=peak_memory_mb, interrupted=is_starved or is_ended
    )


def _answer(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Return what the process answers until it ends; None if that is too late or too long."""
    assert process.stdout is not None  # noqa: S101 - as it was started
    answer = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(answer) <= MAX_ANSWER:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return None
            chunk = os.read(process.stdout.fileno(), CHUNK)
            if not chunk:
                return bytes(answer)
            answer += chunk
    return None


def _wait(process: subprocess.Popen[bytes], deadline: float) -> resource.struct_rusage:
    """Wait until the process ends, kill it after the deadline, and return the resources it used."""
    killed = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage
        if not killed and time.monotonic() >= deadline:
            _kill(process)
            killed = True
        time.sleep(POLL_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _cause(returncode: int, *, is_late: bool) -> Unread:
    if is_late or -returncode in (signal.SIGXCPU, signal.SIGALRM):
        return Unread.TIME
    # When the machine runs out of memory, the kernel kills such a process first.
    if returncode in (EXIT_OUT_OF_MEMORY, -signal.SIGKILL):
        return Unread.MEMORY
    return Unread.DIED
