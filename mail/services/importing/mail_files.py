"""Finds the messages in mail files: mbox, Maildir, single messages, folders of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

MAX_MESSAGE_BYTES = 50 * 1024 * 1024

_SEPARATOR_LENGTH = 500
# A sentence may begin with "From" and name a time, too; but a separator ends in the time of
# delivery as C's asctime writes it, perhaps with a zone: Thu Aug 22 12:36:23 2002.
_SEPARATOR = re.compile(
    rb"From .*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d\d:\d\d.*\d{4}", re.IGNORECASE
)
# Thunderbird's separator; a header follows, and any such line of a mail is quoted.
_BARE_SEPARATOR = re.compile(rb"From \r?\n")
_ANY_HEADER = re.compile(rb"[!-9;-~]+:")
_QUOTED_FROM = re.compile(rb">+From ")
_HEADER = re.compile(
    rb"(?:from|to|cc|subject|date|received|message-id|mime-version|content-type|return-path"
    rb"|delivered-to|reply-to|sender)[ \t]*:",
    re.IGNORECASE,
)
_HEADER_LINES = 200


@dataclass(frozen=True)
class FoundMessage:
    """The bytes of one message, and the file (and number in it) where they are."""

    place: str
    raw: bytes


@dataclass(frozen=True)
class Unreadable:
    """A file, or a message in one, that cannot be used."""

    place: str
    reason: str


def find_messages(path: Path) -> Iterator[FoundMessage | Unreadable]:
    """Yield every message under `path`, in a stable order, and every file that cannot be read."""
    for file in _files(path):
        yield from _read_file(file)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        if {"cur", "new"} <= set(folders):
            # A Maildir: tmp holds mail that is being delivered, other files are the server's own.
            folders[:] = [name for name in folders if name != "tmp"]
        else:
            yield from (Path(folder, name) for name in sorted(names))


def _read_file(file: Path) -> Iterator[FoundMessage | Unreadable]:
    if file.exists() and not file.is_file():
        yield Unreadable(str(file), "not an ordinary file")
        return
    try:
        with file.open("rb") as lines:
            pairs = pairwise(chain(lines, [b""]))
            first = next(pairs, (b"", b""))
            if _is_separator(*first):
                messages = _split(pairs)
            else:
                messages = iter([_gather(line for line, _ in chain([first], pairs))])
            for number, raw in enumerate(messages, start=1):
                yield _checked(raw, str(file) if number == 1 else f"{file} (message {number})")
    except OSError as error:
        yield Unreadable(str(file), error.strerror or type(error).__name__)


def _is_separator(line: bytes, following: bytes) -> bool:
    if _BARE_SEPARATOR.fullmatch(line):
        return _ANY_HEADER.match(following) is not None
    return len(line) <= _SEPARATOR_LENGTH and _SEPARATOR.match(line) is not None


def _split(pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield the messages of an mbox file, whose first separator has been read.

    `pairs` are its lines, each with the one after it.
    """
    ended = False

    def one_message() -> Iterator[bytes]:
        nonlocal ended
        after_blank = False
        for line, following in pairs:
            if after_blank and _is_separator(line, following):
                return
            after_blank = not line.strip()
            yield line[1:] if _QUOTED_FROM.match(line) else line
        ended = True

    while not ended:
        yield _gather(one_message())


def _gather(lines: Iterable[bytes]) -> bytes:
    """Join the lines, but read no further into memory than shows that they are too many."""
    kept: list[bytes] = []
    size = 0
    for line in lines:
        if size <= MAX_MESSAGE_BYTES:
            kept.append(line)
            size += len(line)
    return b"".join(kept)


def _checked(raw: bytes, place: str) -> FoundMessage | Unreadable:
    if not raw.strip():
        return Unreadable(place, "empty")
    if len(raw) > MAX_MESSAGE_BYTES:
        return Unreadable(place, f"larger than {MAX_MESSAGE_BYTES // 2**20} MB")
    head = raw.lstrip()[: 64 * 1024].splitlines()[:_HEADER_LINES]
    for line in head:
        if not line.strip():
            break
        if _HEADER.match(line):
            return FoundMessage(place, raw)
    return Unreadable(place, "not a message: it has no mail headers")
