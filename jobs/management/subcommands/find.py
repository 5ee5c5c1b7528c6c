"""Rows by the id a person typed, the whole of it or enough of its beginning; ids in tables."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet
from rich.table import Column

from interfaces.commands import NotFound, Refused
from jobs.queries.filters import id_range

M = TypeVar("M", bound=Model)

ID_LENGTH = 36


def id_column(heading: str) -> Column:
    """Return a column of ids, which are never cut: neighbours differ at their ends alone."""
    return Column(heading, no_wrap=True, min_width=ID_LENGTH)


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
