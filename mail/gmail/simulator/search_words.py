"""SQLite functions by which searches read a message's bytes: headers and file names."""

from __future__ import annotations

import re
import sqlite3

from mail.gmail.simulator.mime import decode_words, parse

_WORD = re.compile(r"\w+")


def add_functions(connection: sqlite3.Connection) -> None:
    """Let queries call `header_has(raw, name, words)` and `file_has(raw, words)`."""
    connection.create_function("header_has", 3, _header_has, deterministic=True)
    connection.create_function("file_has", 2, _file_has, deterministic=True)


def _header_has(raw: bytes, name: str, wanted: str) -> bool:
    root = parse(raw)
    return any(_contains(decode_words(value), wanted) for value in root.all_headers(name))


def _file_has(raw: bytes, wanted: str) -> bool:
    return any(_contains(part.filename, wanted) for part in parse(raw).walk() if part.filename)


def _contains(text: str, wanted: str) -> bool:
    """Say whether the text contains the words, one after the other."""
    return f" {_words(wanted)} " in f" {_words(text)} "


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
