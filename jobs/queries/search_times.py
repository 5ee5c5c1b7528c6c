"""The times of a search: bounds, periods, days and spans before now; and how it is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from django.utils.dateparse import parse_datetime

from interfaces.moments import earlier, is_in_range, read_span
from jobs.engine.clock import database_now
from jobs.errors import Fault, SearchInvalid

_EXAMPLE_TIME = "give a time such as >2026-01-31, 2026-01-31..2026-02-03, or 6h"


def invalid(name: str, code: str, message: str) -> SearchInvalid:
    """Return the refusal of a qualifier, or of the search if `name` is empty."""
    where = f"search.{name}" if name else "search"
    return SearchInvalid([Fault(where, code, message)])


def period_of(name: str, text: str) -> tuple[datetime | None, datetime | None]:
    """Read `>TIME`, `>=TIME`, `<TIME`, `<=TIME`, `TIME..TIME`, one day, or a span before now."""
    span = read_span(text)
    if span is not None:
        since = earlier(database_now(), span)
        if since is None:
            raise invalid(name, "invalid", _EXAMPLE_TIME)
        return since, None
    first, to, last = text.partition("..")
    if to:
        begin, end = _moment(name, first), _moment(name, last, ends_day=True)
        if begin >= end:
            raise invalid(name, "invalid", f"{first} must be before {last}")
        return begin, end
    sign = text[: len(text) - len(text.lstrip("<>="))]
    moment = text.removeprefix(sign)
    if sign in (">", ">="):
        return _moment(name, moment, ends_day=sign == ">"), None
    if sign in ("<", "<="):
        return None, _moment(name, moment, ends_day=sign == "<=")
    if sign:
        raise invalid(name, "invalid", _EXAMPLE_TIME)
    return _moment(name, moment), _moment(name, moment, ends_day=True)


def _moment(name: str, text: str, *, ends_day: bool = False) -> datetime:
    """Return the time, in UTC if it has no zone; for a day its beginning or its end."""
    is_day = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is not None
    try:
        moment = parse_datetime(f"{text}T00:00:00" if is_day else text)
    except ValueError:
        moment = None
    if moment is None or not is_in_range(moment):
        raise invalid(name, "invalid", _EXAMPLE_TIME)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment + timedelta(days=is_day and ends_day)
