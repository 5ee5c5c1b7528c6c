"""Search finds words and their beginnings, for readers only, and no deleted mail."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models import Q

from jobs.queue import enqueue
from jobs.schedules.groups import GroupRequest
from mail.models import Message, MessageIndex, RequestKind
from mail.services.documents import search
from mail.services.documents.search import (
    find_messages,
    index_messages,
    index_missing,
    unindexed,
)
from mail.services.exports.requests import request_data
from mail.services.queueing import request_sync
from mail.text.words import MAX_WORD_LENGTH, MAX_WORDS, words_of
from tenants.audit import SERVICE
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.mail import MailAccountFactory, MessageFactory
from tests.mail.mail_kit import Mailbox, drain, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-06")]


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox with one ingested message."""
    mailbox.receive(
        letter("Aubergine č. 12", "Žluťoučký kůň and 見積書", sender="Eva <eva@x.example>")
    )
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    return mailbox


def found(firm: Firm, text: str, readable: Q | None = None) -> int:
    with firm_scope(firm):
        return len(find_messages(text, Q() if readable is None else readable))


HITS = {
    "aubergine": 1,
    "AUBER 12": 1,
    "zlutoucky kůň": 1,
    "eva@x.example": 1,
    "積": 1,
    "aubergine pear": 0,
    "ubergine": 0,
    "a": 0,
    "": 0,
    "'": 0,
    '" OR * NOT': 0,
    "12 & !y:* | (": 0,
}


def test_words_and_their_beginnings_are_found(box: Mailbox) -> None:
    assert {text: found(box.firm, text) for text in HITS} == HITS


@pytest.mark.parametrize("words", ["ᦅᦱᧃᦌᦲᧅ", "कᳲख"])
def test_letters_that_the_index_takes_for_gaps_are_searched(box: Mailbox, words: str) -> None:
    box.receive(letter(f"About {words}"))
    box.store_all()
    assert found(box.firm, words) == 1


def test_the_index_keeps_each_word_whole() -> None:
    letters = (chr(one) for one in range(sys.maxunicode + 1) if chr(one).isalnum())
    words = {word for one in letters for word in words_of(f"q{one}")}
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE search USING"
            " fts5(words, tokenize='unicode61 remove_diacritics 0')"
        )
        database.execute("CREATE VIRTUAL TABLE kept USING fts5vocab(search, row)")
        database.execute("INSERT INTO search VALUES (?)", [" ".join(words)])
        assert {row[0] for row in database.execute("SELECT term FROM kept")} == words


def test_only_what_the_searcher_may_read_is_found(box: Mailbox, other_firm: Firm) -> None:
    assert found(box.firm, "aubergine", Q(account__shared=True)) == int(box.account.shared)
    assert found(other_firm, "aubergine") == 0


@pytest.mark.parametrize("many", [0, 1000])
def test_many_hits_are_the_newest_of_what_the_searcher_may_read(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(search, "MANY_HITS", many)
    monkeypatch.setattr(search, "MOST_FOUND", 3)
    begun = datetime(2026, 3, 1, tzinfo=UTC)
    shared = MailAccountFactory(firm=firm, shared=True)
    others = [MailAccountFactory(firm=firm), MailAccountFactory(firm=other_firm, shared=True)]
    # The messages are stored in another order than that in which they arrived.
    days = [2, 5, 1, 4, 3]
    for account in (shared, *others):
        messages = [
            MessageFactory(account=account, subject="pears", internal_date=begun + timedelta(day))
            for day in days
        ]
        messages += [MessageFactory(account=account, subject="plums")]
        with firm_scope(account.firm):
            index_messages(messages)
    with firm_scope(firm):
        hits = find_messages("pear", Q(account__shared=True))
        arrived = [Message.objects.get(pk=hit) for hit in hits]
    assert [(one.account_id, (one.internal_date - begun).days) for one in arrived] == [
        (shared.pk, 5),
        (shared.pk, 4),
        (shared.pk, 3),
    ]


def test_a_search_hides_nothing_from_what_follows_in_its_transaction(box: Mailbox) -> None:
    with firm_scope(box.firm):
        assert find_messages("pear", Q()) == []
        assert MessageIndex.objects.count() == 1


def test_changed_and_deleted_mail_is_found_as_it_is(box: Mailbox) -> None:
    with firm_scope(box.firm):
        Message.objects.update(subject="Pear")
        enqueue("message.index", {"message_ids": [stored(Message)[0].pk]})
    drain()
    assert (found(box.firm, "pear"), found(box.firm, "aubergine")) == (1, 0)
    with firm_scope(box.firm):
        Message.objects.all().delete()
    assert found(box.firm, "pear") == 0


def test_mail_from_before_the_index_is_indexed(box: Mailbox) -> None:
    with firm_scope(box.firm):
        MessageIndex.objects.all().delete()
    with all_firms("as the scheduler"):
        assert [one.firm_id for one in unindexed(GroupRequest(None, "message.index", {}))] == [
            box.firm.pk
        ]
    with firm_scope(box.firm):
        enqueue("message.index", {})
    drain()
    assert found(box.firm, "aubergine") == 1
    with all_firms("as the scheduler"):
        assert list(unindexed(GroupRequest(None, "message.index", {}))) == []


def test_a_page_of_mail_to_index_begins_where_the_last_one_ended(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "AT_ONCE", 2)
    box.receive_many(4)
    newest_first = sorted((one.pk for one in box.store_all()), reverse=True)
    with firm_scope(box.firm):
        MessageIndex.objects.all().delete()
    assert index_missing(box.firm.pk) == (2, newest_first[1])
    with firm_scope(box.firm):
        MessageIndex.objects.all().delete()
    # What is newer is not read again: in a large mailbox each page would take longer than the last.
    assert index_missing(box.firm.pk, before=newest_first[1]) == (2, newest_first[3])
    assert index_missing(box.firm.pk, before=newest_first[3]) == (1, None)
    with firm_scope(box.firm):
        assert set(MessageIndex.objects.values_list("message_id", flat=True)) == set(
            newest_first[2:]
        )


@pytest.mark.req("U-05")
def test_an_erased_person_leaves_no_words(box: Mailbox) -> None:
    request_data(
        box.firm, RequestKind.ERASE_SUBJECT, subject="eva@x.example", reason="asked", by=SERVICE
    )
    drain()
    assert (found(box.firm, "eva"), found(box.firm, "aubergine")) == (0, 0)
    with firm_scope(box.firm):
        assert not MessageIndex.objects.exists()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SELECT block FROM mail_search_data")
            blocks = b"".join(bytes(row[0]) for row in cursor.fetchall())
            cursor.execute("SELECT count(*) FROM mail_search_row")
            assert cursor.fetchone() == (0,)
        assert b"ubergine" not in blocks


def test_words_are_bounded() -> None:
    assert len(words_of(" ".join(map(str, range(10 * MAX_WORDS))))) == MAX_WORDS
    assert max(map(len, words_of("x" * 10_000))) == MAX_WORD_LENGTH


def test_a_mail_of_nothing_but_long_words_is_stored_and_found(box: Mailbox) -> None:
    # Of 4,900 words of 400 bytes each, PostgreSQL would refuse an index of all.
    letters = [chr(0x20000 + number) for number in range(70)]
    words = [f"{one}{other}{chr(0x20100) * 98}" for one in letters for other in letters]
    box.receive(letter("Long words", "\n".join(words)))
    box.store_all()
    assert found(box.firm, "long words") == 1
    assert found(box.firm, words[0]) == 1
