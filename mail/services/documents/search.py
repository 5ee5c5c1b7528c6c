"""Finds messages by their words."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from mail.models import MessageIndex
from mail.text.words import words_of
from tenants.local_settings import set_local

# The setting that the policy of the index reads; see the migration 0016.
SEARCH_SETTING = "mailroom.search"
# A search finds the newest this many messages; for others the words must be narrower.
MOST_FOUND = 1000
# Shorter words must match whole, because so short a beginning matches nearly everything.
SHORTEST_BEGINNING = 2
# SQLite: with more hits than these, the messages are read from the newest on and checked for a hit.
MANY_HITS = 5 * MOST_FOUND
_MATCHES = "SELECT 1 FROM mail_search WHERE mail_search MATCH %s LIMIT 1 OFFSET %s"
_FTS = (
    "SELECT row.index_id FROM mail_search JOIN mail_search_row AS row"
    " ON row.number = mail_search.rowid WHERE mail_search MATCH %s"
)
# The plus keeps SQLite from looking up every hit.
_IS_HIT = f"+mail_messageindex.id IN ({_FTS})"


def find_messages(text: str, readable: Q) -> list[UUID]:
    """Return the ids of the newest messages with words that begin with each of the text's.

    Must run in a scope. `readable` says, by `account__`, whose mail may be searched, because each
    hit discloses what a message says.
    """
    words = words_of(text)
    if not words:
        return []
    rows = MessageIndex.objects.filter(readable).order_by("-received_at", "-message_id")
    if connection.vendor == "sqlite":
        return _newest(
            rows.filter(_match(" AND ".join(f'"{word}"{_star(word)}' for word in words)))
        )
    set_local(SEARCH_SETTING, " & ".join(f"'{word}'{_star(word, ':*')}" for word in words))
    try:
        return _newest(rows)
    finally:
        set_local(SEARCH_SETTING, "")


def _match(query: str) -> Any:
    """Return SQLite's condition for this query of its full-text index."""
    with connection.cursor() as cursor:
        cursor.execute(_MATCHES, [query, MANY_HITS])
        many = cursor.fetchone() is not None
    # The statements are constants.
    if many:
        return RawSQL(_IS_HIT, [query], output_field=BooleanField())  # noqa: S611
    return Q(pk__in=RawSQL(_FTS, [query]))  # noqa: S611


def _star(word: str, star: str = "*") -> str:
    return star if len(word) >= SHORTEST_BEGINNING else ""


def _newest(rows: QuerySet[MessageIndex]) -> list[UUID]:
    return list(rows.values_list("message_id", flat=True)[:MOST_FOUND])
