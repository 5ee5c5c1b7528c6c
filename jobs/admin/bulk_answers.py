"""What the page of a bulk operation sends, read with care."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib.admin.views.main import PAGE_VAR
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from interfaces.moments import is_in_range


def parameters(listing: str) -> QueryDict:
    """Return by what the list was asked for, on all its pages."""
    parameters = QueryDict(listing, mutable=True)
    parameters.pop(PAGE_VAR, None)
    return parameters


def ids(text: str) -> list[UUID]:
    """Return the ids in a space-separated list, each once; what is no id is left out."""
    found: dict[UUID, None] = {}
    for word in text.split():
        try:
            found[UUID(word)] = None
        except ValueError:
            continue
    return list(found)


def moment(text: str) -> datetime | None:
    """Return the time that the page sent; None where it is none that the page writes."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    written = moment is not None and moment.tzinfo is not None and is_in_range(moment)
    return moment if written else None
