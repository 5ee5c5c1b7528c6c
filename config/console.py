"""Log lines for people to read, in structlog's console layout without colours.

structlog's renderer takes 50 microseconds for a line, longer than a short job takes to run; it
writes what has a traceback.
"""

from __future__ import annotations

import re

from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.types import EventDict, WrappedLogger

LEVEL_WIDTH = len("exception")
EVENT_WIDTH = 30
TRACEBACKS = frozenset({"exc_info", "exception", "stack"})
_TO_QUOTE = re.compile(r"[ \t=\r\n\"']")

# The default formatter prints local variables: payloads and mail text among them.
_with_traceback = ConsoleRenderer(
    colors=False, pad_event_to=EVENT_WIDTH, exception_formatter=plain_traceback
)


def render_console(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """Return the line: moment, level, event and logger, then the fields by name."""
    if not TRACEBACKS.isdisjoint(event):
        return _with_traceback(logger, name, event)
    level = f"[{event.pop('level', ''):<{LEVEL_WIDTH}}]"
    told = f"{event.pop('event', '')!s:<{EVENT_WIDTH}}"
    head = f"{event.pop('timestamp', '')} {level} {told} [{event.pop('logger', '')}]"
    return " ".join([head, *(f"{key}={_value(event[key])}" for key in sorted(event))])


def _value(value: object) -> str:
    if isinstance(value, str) and not _TO_QUOTE.search(value):
        return value
    return repr(value)
