"""Partial answers: `fields=messages(id,labelIds),nextPageToken` keeps what it names."""

from __future__ import annotations

import re
from typing import Any

from mail.gmail.simulator.answer import invalid_argument

_TOKEN = re.compile(r"\s*([A-Za-z0-9_]+|\*|[(),/])")
_MAX_NESTING = 20

Selection = dict[str, "Selection"]
"""The fields to keep, each with the selection below it; an empty selection keeps everything."""


def select(answer: Any, fields: str) -> Any:
    """Return what the expression keeps of an answer.

    Raises:
        ApiError: 400, the expression cannot be read.
    """
    reader = _Reader(fields)
    selection = reader.selection(depth=0)
    if reader.peek() is not None:
        raise _unreadable(fields)
    return _kept(answer, selection)


def _kept(value: Any, selection: Selection) -> Any:
    if not selection or "*" in selection:
        return value
    if isinstance(value, list):
        return [_kept(one, selection) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _kept(value[name], below) for name, below in selection.items() if name in value}


def _unreadable(fields: str) -> Exception:
    return invalid_argument(f"Invalid field selection {fields[:100]}")


class _Reader:
    """A cursor over the expression's tokens."""

    def __init__(self, fields: str) -> None:
        self._fields = fields
        self._tokens = _TOKEN.findall(fields)
        if "".join(self._tokens) != "".join(fields.split()) or not self._tokens:
            raise _unreadable(fields)
        self._at = 0

    def peek(self) -> str | None:
        """Return the next token, None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        token = self.peek()
        if token is None:
            raise _unreadable(self._fields)
        self._at += 1
        return token

    def selection(self, *, depth: int) -> Selection:
        """Read names with commas between them."""
        if depth > _MAX_NESTING:
            raise _unreadable(self._fields)
        found: Selection = {}
        while True:
            name = self._take()
            if name in "(),/":
                raise _unreadable(self._fields)
            found[name] = self._below(depth)
            if self.peek() != ",":
                return found
            self._take()

    def _below(self, depth: int) -> Selection:
        if self.peek() == "/":
            self._take()
            name = self._take()
            if name in "(),/":
                raise _unreadable(self._fields)
            return {name: self._below(depth + 1)}
        if self.peek() != "(":
            return {}
        self._take()
        inner = self.selection(depth=depth + 1)
        if self._take() != ")":
            raise _unreadable(self._fields)
        return inner
