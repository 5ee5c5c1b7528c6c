"""The process that reads one file: it may write no files, has limits, and knows no secrets.

It gets the bytes on its standard input and answers with JSON on its standard output.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jobs.execution.child_process import die_with_parent, limit_memory
from mail.documents.kinds import Kind, Unread, Unreadable, check_type, detected_type
from mail.documents.readers import ARCHIVES, READERS, check_unpacked
from mail.text.cleaning import clean_text

MAX_CHARS: Final = 500_000
EXIT_OUT_OF_MEMORY: Final = 77
# Deeply nested input must raise RecursionError, not overflow the stack.
_DEEPEST: Final = 1_000
_NEARLY: Final = 0.8


def main(kind: str, memory_bytes: int, seconds: int) -> None:
    """Read the file on standard input as one of this kind, answer, and exit."""
    die_with_parent()
    _limit(memory_bytes, seconds)
    answer_to = os.dup(1)
    # A library that prints must not write into the answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        answer = json.dumps(read(sys.stdin.buffer.read(), Kind(kind))).encode()
        with os.fdopen(answer_to, "wb") as stream:
            stream.write(answer)
    except MemoryError:
        os._exit(EXIT_OUT_OF_MEMORY)
    os._exit(0)


def read(data: bytes, kind: Kind) -> dict[str, Any]:
    """Return the text, the detected type, and why the file was not read, or only in part."""
    found, text, reason = "", "", ""
    try:
        found = detected_type(data)
        check_type(kind, found)
        if found in ARCHIVES:
            check_unpacked(data)
        text, reason = _read_text(data, Kind(found))
    except Unreadable as error:
        reason = error.reason.value
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a library's own errors, and those of hostile input
        if _memory_is_used_up():
            raise MemoryError from None
        reason = Unread.DAMAGED.value
    return {"text": text, "detected_type": str(found), "reason": reason}


def _read_text(data: bytes, kind: Kind) -> tuple[str, str]:
    pieces: list[str] = []
    length, reason = 0, ""
    try:
        for piece in READERS[kind](data):
            pieces.append(piece)
            length += len(piece) + 1
            if length > MAX_CHARS:
                reason = Unread.CUT.value
                break
    except Unreadable as error:
        if error.reason is not Unread.CUT:
            raise
        reason = error.reason.value
    text = clean_text("\n".join(pieces), MAX_CHARS).strip()
    return text, reason if text else Unread.NO_TEXT.value


def _memory_is_used_up() -> bool:
    """Say whether memory nearly reached the limit, because not every library reports that."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError):
        found = re.search(r"VmPeak:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
        return found is not None and int(found[1]) * 1024 > _NEARLY * limit
    return False


def _limit(memory_bytes: int, seconds: int) -> None:
    limit_memory(memory_bytes)
    sys.setrecursionlimit(_DEEPEST)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))
    # The alarm ends this process even if its parent cannot any more.
    signal.alarm(2 * seconds)
