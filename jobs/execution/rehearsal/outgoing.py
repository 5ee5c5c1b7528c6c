"""Blocks and lists what would have an effect outside a rehearsal's process and its transaction.

Python raises audit events before the call itself, from every thread and also from the standard
library's C code. Libraries that open sockets in C code of their own raise none, so the database
drivers are blocked by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from psycopg import generators

from interfaces.redaction import redact

MOST_CALLS = 100
MOST_CHARACTERS = 200
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class CallBlocked(ConnectionRefusedError):
    """A rehearsal makes no calls; code that handles network errors handles this one too."""


class OutgoingCalls:
    """The calls that were blocked, in order of the first of each kind and target."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self.blocking = False

    def add(self, kind: str, target: str) -> None:
        """List a call."""
        key = (kind, redact(target, MOST_CHARACTERS))
        if key in self._counts or len(self._counts) < MOST_CALLS:
            self._counts[key] = self._counts.get(key, 0) + 1

    def refuse(self, kind: str, target: str) -> None:
        """List a call, and block it.

        Raises:
            CallBlocked: always.
        """
        self.add(kind, target)
        raise CallBlocked(f"calls are blocked in a rehearsal: {kind} {target}")

    def listed(self) -> list[dict[str, Any]]:
        """Return the calls with how often each was tried."""
        return [
            {"kind": kind, "target": target, "count": count}
            for (kind, target), count in self._counts.items()
        ]


# One for the process, because an audit hook is for the whole process and cannot be removed.
CALLS = OutgoingCalls()


class EmailBackend(BaseEmailBackend):
    """Lists e-mails in place of sending them; to the handler they count as sent."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """List the e-mails, without what they say: even the subject may be for their readers alone."""
        for message in email_messages:
            count = len(message.recipients())
            CALLS.add("email", f"{count} recipient{'s'[: count != 1]}")
        return len(email_messages)


def block(scratch: Path) -> None:
    """Block calls from now on; files may be written below `scratch` alone.

    The process must have its database connection already, because further ones are blocked.
    """
    hook = _Hook(scratch)
    CALLS.blocking = True
    sys.addaudithook(hook)
    vars(generators)["connect"] = _refuse_connection


def _refuse_connection(*_: Any, **__: Any) -> None:
    # A thread's own connection would be outside the transaction, and what it writes would stay.
    CALLS.refuse("database", "another connection to a PostgreSQL server")


def _address(value: object) -> str:
    if isinstance(value, tuple) and len(value) > 1:
        host, port = (part.decode() if isinstance(part, bytes) else part for part in value[:2])
        return f"{host}:{port}" if port else str(host)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _program(value: object) -> str:
    """Return the name of a program; its arguments may be secret."""
    text = os.fsdecode(value) if isinstance(value, bytes | os.PathLike) else str(value)
    return text.split(maxsplit=1)[0] if text.strip() else "a program"


Describe = Callable[[tuple[Any, ...]], str]
_EVENTS: dict[str, tuple[str, Describe]] = {
    "socket.getaddrinfo": ("network", lambda args: _address(args[:2])),
    **dict.fromkeys(
        ("socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"),
        ("network", lambda args: _address(args[0])),
    ),
    **dict.fromkeys(
        ("socket.connect", "socket.bind", "socket.sendto"),
        ("network", lambda args: _address(args[1])),
    ),
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "pty.spawn"),
        ("process", lambda args: _program(args[0])),
    ),
    **dict.fromkeys(("os.fork", "os.forkpty"), ("process", lambda _: "a fork of this process")),
    **dict.fromkeys(("os.kill", "os.killpg"), ("signal", lambda args: f"process {args[0]}")),
    "sqlite3.connect": ("database", lambda args: _address(args[0])),
}
_PATH_EVENTS = frozenset(
    f"os.{name}"
    for name in (
        "remove", "rename", "rmdir", "mkdir", "link", "symlink", "truncate", "chmod", "chown",
        "utime", "setxattr",
    )
)  # fmt: skip


class _Hook:
    def __init__(self, scratch: Path) -> None:
        self._scratch = str(scratch.resolve()) + os.sep

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not CALLS.blocking:
            return
        if event == "open":
            path, _, flags = args
            if flags & WRITING:
                self._check_path(path)
        elif event in _PATH_EVENTS:
            self._check_path(args[0])
        elif event in _EVENTS:
            kind, describe = _EVENTS[event]
            CALLS.refuse(kind, describe(args))

    def _check_path(self, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            # A file that is open already is given by its descriptor.
            return
        name = os.path.realpath(os.fsdecode(path))
        if name != os.devnull and not name.startswith(self._scratch):
            CALLS.refuse("file", name)
