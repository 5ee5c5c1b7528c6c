"""As much of PostgreSQL's protocol as shows which statements a transaction has, and its end."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

KIND = 1
LENGTH = 4
QUERY, PARSE, BIND = b"Q", b"P", b"B"
READY, ERROR = b"Z", b"E"
OUTSIDE_TRANSACTIONS = b"I"


@dataclass(frozen=True)
class Answer:
    """A message of the server; `committed` has the statements of the transaction that it ends."""

    raw: bytes
    committed: tuple[str, ...] = ()


class Messages:
    """Cuts a stream into messages, in whatever pieces the stream arrives."""

    def __init__(self, *, starts_up: bool) -> None:
        # A client's first message has no kind.
        self._starts_up = starts_up
        self._rest = b""

    def cut(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the kind and the whole of each message that `data` completes."""
        self._rest += data
        while True:
            head = 0 if self._starts_up else KIND
            if len(self._rest) < head + LENGTH:
                return
            size = head + struct.unpack_from("!I", self._rest, head)[0]
            if len(self._rest) < size:
                return
            message, self._rest = self._rest[:size], self._rest[size:]
            self._starts_up = False
            yield message[:head], message


class Conversation:
    """The messages of one connection."""

    def __init__(self) -> None:
        self._asked = Messages(starts_up=True)
        self._answered = Messages(starts_up=False)
        self._prepared: dict[bytes, str] = {}
        self._statements: list[str] = []
        self._failed = False

    def wants_commit_of(self, word: str) -> bool:
        """Say whether the client has just asked to commit a transaction with `word` in it."""
        said = self._statements
        return bool(said) and said[-1] == "COMMIT" and any(word in statement for statement in said)

    def ask(self, data: bytes) -> None:
        """Note the statements that the client sends."""
        for kind, message in self._asked.cut(data):
            body = message[KIND + LENGTH :]
            if kind == QUERY:
                self._statements.append(_text(body.split(b"\0")[0]))
            elif kind == PARSE:
                name, statement = body.split(b"\0")[:2]
                self._prepared[name] = _text(statement)
            elif kind == BIND:
                name = body.split(b"\0")[1]
                self._statements.append(self._prepared.get(name, ""))

    def answer(self, data: bytes) -> Iterator[Answer]:
        """Yield the messages of the server."""
        for kind, message in self._answered.cut(data):
            if kind == ERROR:
                self._failed = True
            if kind != READY or message[-1:] != OUTSIDE_TRANSACTIONS:
                yield Answer(message)
                continue
            said, failed = tuple(self._statements), self._failed
            self._statements, self._failed = [], False
            yield Answer(message, () if failed or "ROLLBACK" in said else said)


def _text(statement: bytes) -> str:
    return statement.decode(errors="replace")
