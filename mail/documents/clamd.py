"""Has clamd scan bytes, with its INSTREAM command, which needs no library."""

from __future__ import annotations

import socket
import struct
from contextlib import closing, suppress
from typing import Final
from urllib.parse import urlsplit

from mail.documents.kinds import Unread, Unreadable

TIMEOUT_SECONDS: Final = 60
_CHUNK: Final = 2**16
_MAX_ANSWER: Final = 4096


class ScannerUnavailable(Exception):
    """clamd could not be asked, or did not answer."""


def scan(url: str, data: bytes) -> str:
    """Return the name of the malware that clamd finds, empty for none.

    Args:
        url: `unix:/path/to/socket` or `tcp://host:port`.
        data: the bytes to scan.

    Raises:
        ScannerUnavailable: clamd did not answer, but may later.
        Unreadable: the data exceeds clamd's size limit.
    """
    try:
        with closing(_connect(url)) as connection:
            answer = _ask(connection, data)
    except OSError as error:
        raise ScannerUnavailable(f"clamd is not to be had: {type(error).__name__}") from error
    if answer.endswith(" OK"):
        return ""
    if answer.endswith(" FOUND"):
        return answer.removesuffix(" FOUND").partition(": ")[2]
    if answer.endswith(" ERROR") and "size limit" in answer:
        raise Unreadable(Unread.NOT_SCANNABLE)
    raise ScannerUnavailable("clamd gave no verdict")


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(parts.path)
        except OSError:
            connection.close()
            raise
        return connection
    return socket.create_connection((parts.hostname or "", parts.port or 0), TIMEOUT_SECONDS)


def _ask(connection: socket.socket, data: bytes) -> str:
    # Clamd may answer and close the connection while the data is still being sent.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"zINSTREAM\0")
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            connection.sendall(struct.pack("!L", len(chunk)) + chunk)
        connection.sendall(struct.pack("!L", 0))
    answer = b""
    while not answer.endswith(b"\0") and len(answer) < _MAX_ANSWER:
        received = connection.recv(_MAX_ANSWER)
        if not received:
            break
        answer += received
    return answer.rstrip(b"\0\n").decode("utf-8", "replace")
