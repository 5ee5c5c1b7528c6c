"""Finds messages by their words, in an index that is written and deleted with the messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from jobs.schedules.groups import GroupRequest, Member, schedule_group
from mail.models import Attachment, Document, DocumentStatus, Message, MessageIndex
from mail.text.words import words_of
from tenants.local_settings import set_local
from tenants.models import Firm
from tenants.scope import firm_scope

# How many messages are indexed in one transaction.
AT_ONCE = 200
# The group of the firms with mail that search does not find yet.
UNINDEXED = "unindexed"
_TEXT = ("subject", "sender_name", "sender_address", "to", "cc", "text")
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


def index_messages(messages: Collection[Message]) -> int:
    """Index the messages, new or indexed before, in one statement; return how many.

    Must run in the scope of the messages' firm.
    """
    names: dict[UUID, list[str]] = {message.pk: [] for message in messages}
    attachments = Attachment.objects.filter(message_id__in=names)
    for message_id, name in attachments.values_list("message_id", "filename"):
        names[message_id].append(name)
    documents = _document_texts([pk for pk, some in names.items() if some])
    MessageIndex.objects.bulk_create(
        [
            MessageIndex(
                message=message,
                account_id=message.account_id,
                received_at=message.internal_date,
                words=" ".join(
                    words_of(*_texts(message), *names[message.pk], *documents[message.pk])
                ),
            )
            for message in messages
        ],
        update_conflicts=True,
        unique_fields=["firm", "message"],
        update_fields=["words", "received_at"],
    )
    return len(messages)


def index_some(firm_id: int, message_ids: Collection[UUID]) -> int:
    """Index these messages of the firm anew, if they still exist; return how many."""
    with firm_scope(firm_id):
        return index_messages(_with_text(Message.objects.filter(pk__in=message_ids)))


def index_missing(firm_id: int, before: UUID | None = None) -> tuple[int, UUID | None]:
    """Index the firm's newest messages before this one that are not indexed.

    Returns how many, and the last one, before which the next call goes on; None at the end.
    """
    with firm_scope(firm_id):
        missing = Message.objects.filter(search_index=None).order_by("-pk")
        if before is not None:
            missing = missing.filter(pk__lt=before)
        page = list(_with_text(missing)[:AT_ONCE])
        indexed = index_messages(page)
    return indexed, page[-1].pk if len(page) == AT_ONCE else None


def drop_erased_words() -> None:
    """Rewrite SQLite's index, which otherwise keeps the words of deleted messages for a while."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO mail_search(mail_search) VALUES ('optimize')")


def _document_texts(message_ids: Collection[UUID]) -> dict[UUID, list[str]]:
    """Return the texts of the messages' attachments, as far as they were read."""
    texts: dict[UUID, list[str]] = defaultdict(list)
    if message_ids:
        read = Document.objects.filter(message_id__in=message_ids, status=DocumentStatus.READ)
        for message_id, text in read.order_by("pk").values_list("message_id", "text"):
            texts[message_id].append(text)
    return texts


def _with_text(messages: Any) -> Any:
    return messages.only("firm", "account", "internal_date", *_TEXT).select_for_update(
        of=("self",), no_key=True
    )


def _texts(message: Message) -> Iterable[str]:
    yield from (message.subject, message.sender_name, message.sender_address)
    for person in (*message.to, *message.cc):
        yield from (person.get("name", ""), person.get("address", ""))
    yield message.text


@schedule_group(UNINDEXED, member="firm with mail to index")
def unindexed(reach: GroupRequest) -> Iterator[Member]:
    """Return the firms with messages that are not indexed: imported, or older than the index."""
    missing = Message.objects.filter(firm=OuterRef("pk"), search_index=None)
    firms = Firm.objects.filter(Exists(missing))
    if reach.firm_id is not None:
        firms = firms.filter(pk=reach.firm_id)
    for firm_id in firms.order_by("pk").values_list("pk", flat=True):
        yield Member(firm_id, key=str(firm_id), idempotency_key=f"message.index:{firm_id}")


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
