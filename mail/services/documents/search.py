"""Finds messages by their words."""

from __future__ import annotations

from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from mail.models import MessageIndex
from mail.text.words import words_of
from tenants.scope import set_local

# What the policy of the index reads; see the migration 0016.
SEARCH_SETTING = "mailroom.search"
# A search finds the newest; who wants others narrows it.
MOST_FOUND = 1000
# A beginning this short matches nearly everything: such a word is taken as it is.
SHORTEST_BEGINNING = 2
_FTS = (
    "SELECT row.index_id FROM mail_search JOIN mail_search_row AS row"
    " ON row.number = mail_search.rowid WHERE mail_search MATCH %s"
)


def find_messages(text: str, readable: Q) -> list[UUID]:
    """Return the ids of the newest messages with words that begin with each of the text's.

    Must run in a scope; `readable` says, by `account__`, whose mail may be searched: a hit tells
    what a message says.
    """
    words = words_of(text)
    if not words:
        return []
    rows = MessageIndex.objects.filter(readable).order_by("-received_at", "-message_id")
    if connection.vendor == "sqlite":
        query = " AND ".join(f'"{word}"{_star(word)}' for word in words)
        return _newest(rows.filter(pk__in=RawSQL(_FTS, [query])))  # noqa: S611 - a constant
    set_local(SEARCH_SETTING, " & ".join(f"'{word}'{_star(word, ':*')}" for word in words))
    try:
        return _newest(rows)
    finally:
        set_local(SEARCH_SETTING, "")


def _star(word: str, star: str = "*") -> str:
    return star if len(word) >= SHORTEST_BEGINNING else ""


def _newest(rows: QuerySet[MessageIndex]) -> list[UUID]:
    return list(rows.values_list("message_id", flat=True)[:MOST_FOUND])
