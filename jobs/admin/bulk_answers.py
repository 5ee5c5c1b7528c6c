"""Reads what the page of a bulk operation sends, which may be anything."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib.admin.views.main import PAGE_VAR
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from interfaces.moments import is_in_range


def parameters(listing: str) -> QueryDict:
    """Return the parameters of the list without its page number."""
    parameters = QueryDict(listing, mutable=True)
    parameters.pop(PAGE_VAR, None)
    return parameters


def ids(text: str) -> list[UUID]:
    """Return the ids in a space-separated list, each once; words that are no id are left out."""
    found: dict[UUID, None] = {}
    for word in text.split():
        try:
            found[UUID(word)] = None
        except ValueError:
            continue
    return list(found)


def moment(text: str) -> datetime | None:
    """Return the time that the page sent; None if the page cannot have written it."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    written = moment is not None and moment.tzinfo is not None and is_in_range(moment)
    return moment if written else None
