"""Arguments of commands: how they are declared and read."""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django.core.management.base import CommandParser
from django.utils.dateparse import parse_datetime

from interfaces.commands import nonempty
from interfaces.moments import YEARS, earlier, is_in_range, read_span
from interfaces.strict_json import without_repeats
from jobs.engine.clock import database_now
from jobs.queries import held_back
from jobs.states import Category, Priority, Status

# Adds itself to a parser.
Argument = Callable[[CommandParser], object]

MAX_LIMIT = 1000
MAX_COUNT = 10_000_000


def argument(*names: str, **settings: Any) -> Argument:
    """Return an argument, declared as for `add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


def row_id(noun: str) -> Argument:
    """Return the argument that names a row for `Resource.find`."""
    return argument("id", help=f"the {noun}'s id, or enough of its beginning")


def row_ids(noun: str) -> Argument:
    """Return the argument of one id or several; the subcommand runs once for each."""
    return argument(
        "row_ids", nargs="+", metavar="ID", help=f"a {noun}'s id, or enough of its beginning"
    )


def limit(text: str) -> int:
    """Read a number of rows."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LIMIT:
        raise ArgumentTypeError(f"a number from 1 to {MAX_LIMIT}, not {text!r}")
    return int(text)


def count(text: str) -> int:
    """Read a count."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MAX_COUNT:
        raise ArgumentTypeError(f"a number from 1 to {MAX_COUNT:,}, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a delay in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"a number of seconds, not {text!r}")
    if value < 0:
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
    if not is_in_range(value):
        raise ArgumentTypeError(f"a time in {YEARS}, not {text!r}")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def moment_or_now(text: str) -> datetime | Literal["now"]:
    """Read a time, or the word now."""
    return "now" if text == "now" else moment(text)


def since(text: str) -> datetime | timedelta:
    """Read a time, or a span before now such as 30m, 6h, 2d; `begin_of` returns when that begins."""
    span = read_span(text)
    if span is None:
        return moment(text)
    if earlier(datetime.now(UTC), span) is None:
        raise ArgumentTypeError(f"a period that begins in {YEARS}, not {text!r}")
    return span


def begin_of(since: datetime | timedelta | None) -> datetime | None:
    """Return the time; for a span, so long before the database's time."""
    # Not while arguments are read, when a database that cannot be used is not explained yet.
    return database_now() - since if isinstance(since, timedelta) else since


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(text, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError('a JSON object such as \'{"name": "Ada"}\'')
    return value


LIMIT = argument("--limit", type=limit, default=50, help=f"number of rows, at most {MAX_LIMIT}")
CURSOR = argument("--cursor", help="continue here: the cursor that the previous page ended with")
CSV = argument("--csv", action="store_true", help="print the page as CSV, for a spreadsheet")
CATEGORY = argument("--category", choices=[category.value for category in Category])
# A filter that is empty, as of a shell variable that is not set, would choose everything.
TYPE = argument("--type", dest="job_type", type=nonempty, metavar="TYPE")
REQUIRED_TYPE = argument("--type", dest="job_type", type=nonempty, metavar="TYPE", required=True)
LIMIT_KEY = argument(
    "--limit-key",
    type=nonempty,
    metavar="KEY",
    help="only jobs of this limit key, for example a mailbox's",
)
USER = argument(
    "--user",
    type=nonempty,
    metavar="NAME",
    help="only jobs on behalf of this user, given by sign-in name",
)
STATUS = argument("--status", choices=[status.value for status in Status])
CORRELATION_ID = argument("--correlation-id", type=nonempty, metavar="ID")
HELD_BACK = argument(
    "--held-back",
    choices=[*(code.value for code in held_back.HELD_BACK), held_back.ANYTHING],
    help="only due jobs that this holds back",
)
SEARCH = argument(
    "--search",
    type=nonempty,
    metavar="TEXT",
    help="an id or key; qualifiers: type: firm: status: error: key: correlation: user: reason: "
    "created: payload.FIELD:",
)
PRIORITY = argument(
    "--priority",
    type=int,
    choices=[level.value for level in Priority],
    help="0 critical, 1 high, 2 normal, 3 low",
)
REASON = argument("--reason", default="", help="why; kept in the audit log")
REQUIRED_REASON = argument("--reason", required=True, help="why; kept in the audit log")
CREATED_SINCE = argument(
    "--since",
    type=since,
    metavar="WHEN",
    help="created at or after this time, or within the last 30m, 6h, 2d",
)
