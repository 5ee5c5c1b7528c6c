"""The offline classifier learns from corrections and answers, in each mailbox for itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mail.gmail.simulator.api import GmailSimulator
from mail.llm.base import Category, SenderHistory
from mail.llm.offline import OfflineClassifier
from mail.models import Decision, Message
from mail.services.deciding.classify import classify_thread
from mail.services.deciding.classify_page import classify_page
from mail.services.deciding.mail_context import DAYS, sender_histories
from mail.services.mailboxes.accounts import open_account
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.mail.mail_kit import OWNER, Mailbox, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-12")]

ANNA = "Anna Novak <anna@customer.example>"
PLAIN = "Here are the photographs."


def arrive(mailbox: Mailbox, number: int, *, days: int = 9, **more: Any) -> Message:
    """Let a mail arrive in a thread of its own; return the stored message."""
    at = datetime.now(UTC) - timedelta(days=days, minutes=-number)
    raw = letter(f"Photographs {number}", PLAIN, message_id=f"<{number}@customer.example>", **more)
    arrived = mailbox.receive(raw, at=at)
    mailbox.store_all()
    return mailbox.message(arrived)


def reply(mailbox: Mailbox, number: int) -> None:
    """Let the person answer the mail with this number."""
    raw = letter(
        f"Re: Photographs {number}", "Thank you.", sender=OWNER, to=ANNA,
        reply_to_id=f"<{number}@customer.example>",
    )  # fmt: skip
    mailbox.receive(raw, labels=("SENT",), at=datetime.now(UTC) - timedelta(days=1))
    mailbox.store_all()


def say(message: Message, category: Category) -> None:
    """Store the category that the person gave to the message's thread."""
    with firm_scope(message.firm_id):
        Decision.objects.create(
            account_id=message.account_id, message=message, source="person", category=category,
            confidence=1.0,
        )  # fmt: skip


def history(mailbox: Mailbox, message: Message) -> SenderHistory:
    with firm_scope(mailbox.firm):
        return sender_histories(mailbox.account, [message])[message.pk]


def test_answers_and_silence_are_counted_by_thread(mailbox: Mailbox) -> None:
    for number in range(4):
        arrive(mailbox, number)
    reply(mailbox, 0)
    arrive(mailbox, 8, days=DAYS + 1)
    arrive(mailbox, 9, days=1)
    new = arrive(mailbox, 10, days=0)
    # Mail that is too old or too new, and the mail itself, does not count.
    assert history(mailbox, new) == SenderHistory((), answered=1, unanswered=3)
    stranger = arrive(mailbox, 11, sender="bob@other.example", days=0)
    assert history(mailbox, stranger) == SenderHistory()


def test_the_last_word_on_each_thread_counts(mailbox: Mailbox) -> None:
    first, second, third = (arrive(mailbox, number) for number in range(3))
    say(first, Category.FYI)
    say(second, Category.PAYMENT_REQUEST)
    say(first, Category.ACTION_REQUIRED)
    say(third, Category.WAITING)
    new = arrive(mailbox, 9, days=0, sender="ANNA@customer.example")
    said = history(mailbox, new).said
    assert said == (Category.PAYMENT_REQUEST, Category.ACTION_REQUIRED)


def test_machines_are_not_looked_up_but_words_about_them_are(mailbox: Mailbox) -> None:
    news = [arrive(mailbox, number, List_Id="<news>") for number in range(3)]
    say(news[0], Category.ACTION_REQUIRED)
    new = arrive(mailbox, 9, days=0, List_Id="<news>")
    assert history(mailbox, new) == SenderHistory((Category.ACTION_REQUIRED,))


def other_mailbox(firm: Firm, simulator: GmailSimulator, address: str) -> Mailbox:
    return Mailbox(firm, open_account(firm, address), simulator)


def test_nothing_is_learnt_from_another_mailbox(mailbox: Mailbox, other_firm: Firm) -> None:
    for firm in (mailbox.firm, other_firm):
        other = other_mailbox(firm, mailbox.simulator, f"{firm.slug}@else.example")
        for number in range(3):
            say(arrive(other, number), Category.PAYMENT_REQUEST)
    new = arrive(mailbox, 9, days=0)
    assert history(mailbox, new) == SenderHistory()


@pytest.mark.parametrize("together", [False, True])
def test_the_next_mail_is_judged_by_it(mailbox: Mailbox, together: bool) -> None:
    for number in range(2):
        say(arrive(mailbox, number), Category.PAYMENT_REQUEST)
    new = arrive(mailbox, 9, days=0)
    if together:
        classify_page(mailbox.account, [new.pk], OfflineClassifier(), job_id=uuid4())
    else:
        classify_thread(mailbox.account, new.thread_id, new.pk, OfflineClassifier(), job_id=uuid4())
    decision = next(one for one in stored(Decision) if one.message_id == new.pk)
    assert (decision.source, decision.category) == ("offline", Category.PAYMENT_REQUEST)
    assert decision.confidence == 0.75
    assert "you said so of this sender's mail before" in decision.rationale


def test_a_page_takes_as_many_queries_for_many_senders_as_for_one(mailbox: Mailbox) -> None:
    messages = [arrive(mailbox, number, sender=f"person{number}@x.example") for number in range(6)]
    counts = []
    for page in (messages[:1], messages):
        with firm_scope(mailbox.firm), CaptureQueriesContext(connection) as queries:
            sender_histories(mailbox.account, page)
        counts.append(len(queries))
    assert counts[0] == counts[1]
