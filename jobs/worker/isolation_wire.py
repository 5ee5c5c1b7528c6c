"""What a worker and its isolated processes say to each other: JSON with its length in front.

Not pickle: whoever can write to the socket could run code with it.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import threading
from dataclasses import asdict
from typing import Any, get_args

from pydantic import TypeAdapter

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome

Message = dict[str, Any]

_LENGTH = struct.Struct("!I")
_READ_BYTES = 65_536
_CLAIM = TypeAdapter(Claim)
_OUTCOMES = {kind.__name__: TypeAdapter(kind) for kind in get_args(Outcome)}


class Channel:
    """One end of the connection. Many threads may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._sending = threading.Lock()
        self._received = bytearray()
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            EOFError: the other end is gone.
        """
        text = json.dumps(message, default=str).encode()
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(text)) + text)
        except OSError as error:
            raise EOFError from error

    def receive(self, timeout: float = math.inf) -> Message | None:
        """Return the next message; None when `timeout` seconds brought nothing.

        Raises:
            EOFError: the other end is gone.
            ValueError: what came is no message.
        """
        milliseconds = None if timeout == math.inf else timeout * 1000
        while (message := self._cut()) is None:
            if not self._poll.poll(milliseconds):
                return None
            try:
                data = self._socket.recv(_READ_BYTES)
            except OSError as error:
                raise EOFError from error
            if not data:
                raise EOFError
            self._received += data
        return message

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _cut(self) -> Message | None:
        """Take one whole message from what was received."""
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        message: Message = json.loads(self._received[_LENGTH.size : end])
        del self._received[:end]
        return message


def pack_claim(claim: Claim) -> Message:
    """Return the claim as a message."""
    return claim._asdict()


def read_claim(message: Message) -> Claim:
    """Return the claim of a message."""
    return _CLAIM.validate_python(message)


def pack_outcome(outcome: Outcome) -> Message:
    """Return the outcome as a message."""
    return {"outcome": type(outcome).__name__, "fields": asdict(outcome)}


def read_outcome(message: Message) -> Outcome:
    """Return the outcome of a message.

    Raises:
        ValueError: the message holds none.
    """
    kind = _OUTCOMES.get(str(message.get("outcome")))
    if kind is None:
        raise ValueError("no outcome")
    outcome: Outcome = kind.validate_python(message.get("fields"))
    return outcome
