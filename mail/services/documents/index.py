"""Keeps the search index of messages; it is written and deleted with the messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef

from jobs.schedules.groups import GroupRequest, Member, schedule_group
from mail.models import Attachment, Document, DocumentStatus, Message, MessageIndex
from mail.text.words import words_of
from tenants.models import Firm
from tenants.scope import firm_scope

# How many messages are indexed in one transaction.
AT_ONCE = 200
# The group of the firms with mail that search does not find yet.
UNINDEXED = "unindexed"
_TEXT = ("subject", "sender_name", "sender_address", "to", "cc", "text")


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


def index_missing(firm_id: int) -> int:
    """Index some of the firm's messages that are not indexed; return how many."""
    with firm_scope(firm_id):
        missing = Message.objects.filter(search_index=None).order_by("-pk")
        return index_messages(_with_text(missing)[:AT_ONCE])


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
