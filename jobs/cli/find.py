"""Rows by the id a person typed: the whole of it, or enough of its beginning."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet

from jobs.filters import id_range
from tenants.cli import NotFound, Refused

M = TypeVar("M", bound=Model)

# Enough of a UUIDv7 for its millisecond and some of its random part.
SHORT_ID_LENGTH = 18


def short_id(value: object) -> str:
    """Return the beginning of an id, which `find_one` accepts."""
    return str(value)[:SHORT_ID_LENGTH]


def find_one(rows: QuerySet[M], what: str, text: str) -> M:
    """Return the one row whose id begins as `text` does; `what` names such a row in errors.

    Raises:
        NotFound: there is none.
        Refused: there are several.
    """
    span = id_range(text)
    found = [] if span is None else list(rows.filter(pk__range=span).order_by("pk")[:2])
    if not found:
        raise NotFound(f"no {what} has the id {text!r}")
    if len(found) > 1:
        raise Refused(f"several {what}s have ids that begin with {text!r}: give more of it")
    return found[0]
