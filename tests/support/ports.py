"""Ports of loopback that nobody else is given meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port inside the block, for a server that asks for it by number; until then it is closed.

    A socket is bound to it that does not listen: whoever asks for any free port gets another.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port
