"""Log lines with fields, through standard logging, so that the setting LOGGING applies to them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The attributes that every record has.
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


# structlog's name of the field.
EXCEPTION = "exception"


@dataclass(frozen=True)
class Line:
    """The message of a log record: the event's name, then its fields as `name=value`.

    A traceback (the field `exception`) follows on lines of its own.

    The record carries the fields as attributes too, for formatters that read those.
    """

    event: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        shown = (f"{name}={value}" for name, value in self.fields.items() if name != EXCEPTION)
        traceback = self.fields.get(EXCEPTION)
        return " ".join([self.event, *shown]) + (f"\n{traceback}" if traceback else "")


def write_line(logger: logging.Logger, level: int, event: str, fields: Mapping[str, Any]) -> None:
    """Write one line to this logger."""
    extra = {name: value for name, value in fields.items() if name not in _TAKEN}
    logger.log(level, Line(event, fields), extra=extra)
