"""What may stand behind an option, and how a wrong value is explained (exit 2)."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.dateparse import parse_datetime

from interfaces.strict_json import without_repeats
from jobs.queries.lists import CursorInvalid

EXIT_USAGE = 2
DEFAULT_LIMIT = 50
MAX_LIMIT = 1000
MAX_COUNT = 10_000_000

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SPAN = re.compile(r"(\d{1,6})([smhd])\Z")


def add_page_options(parser: CommandParser) -> None:
    """Add `--limit` and `--cursor`."""
    parser.add_argument(
        "--limit", type=limit, default=DEFAULT_LIMIT, help=f"rows, at most {MAX_LIMIT}"
    )
    parser.add_argument("--cursor", help="where to go on: the cursor a list ended with")


def limit(text: str) -> int:
    """Read a number of rows."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LIMIT:
        raise ArgumentTypeError(f"a number from 1 to {MAX_LIMIT}, not {text!r}")
    return int(text)


def count(text: str) -> int:
    """Read how many of something."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MAX_COUNT:
        raise ArgumentTypeError(f"a number from 1 to {MAX_COUNT:,}, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a delay in seconds."""
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"a number of seconds, not {text!r}") from None
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError("seconds must not be negative")
    return value


def moment(text: str) -> datetime:
    """Read a time, ISO 8601; without a zone it is UTC."""
    try:
        value = parse_datetime(text)
    except ValueError:
        value = None
    if value is None:
        raise ArgumentTypeError(f"a time such as 2026-01-31T09:00:00Z, not {text!r}")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def since(text: str) -> datetime:
    """Read a time, or a span before now such as 30m, 6h, 2d."""
    span = _SPAN.match(text)
    if span is None:
        return moment(text)
    number, unit = span.groups()
    return datetime.now(UTC) - timedelta(**{_UNITS[unit]: int(number)})


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(text, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError('a JSON object such as \'{"name": "Ada"}\'')
    return value


def cursor_refused(error: CursorInvalid) -> CommandError:
    """Return the usage error for a cursor that cannot be read."""
    return CommandError(f"argument --cursor: {error}", returncode=EXIT_USAGE)
