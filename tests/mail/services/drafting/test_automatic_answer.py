"""An automatic reply in a thread answers nothing: the question still waits for the owner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from mail.labels import LabelKey
from mail.llm.base import Category
from mail.llm.offline import OfflineClassifier
from mail.models import ActionType, Approval
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import approve
from mail.services.deciding.classify_page import classify_page
from mail.services.mailboxes.briefing import briefing_of
from tenants.scope import firm_scope
from tests.mail.approval_kit import person
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    finished,
    give_label,
    listed,
    prepared,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import OWNER, Mailbox, drain, letter, stored
from tests.mail.send_kit import at_once, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-09", "M-19")]


def answered_by_a_program(mailbox: Mailbox) -> str:
    """Let a program answer the question for the owner; return Gmail's id of the answer."""
    later = datetime.now(UTC) + timedelta(seconds=2)
    raw = letter(
        "Re: Price list",
        "Thank you, we look into it.",
        sender=OWNER,
        to="anna@customer.example",
        reply_to_id="<q1@customer.example>",
        at=later,
        Auto_Submitted="auto-replied",
    )
    return mailbox.receive(raw, labels=("SENT",), at=later)


def test_the_draft_and_its_label_stay_after_mailrooms_own_automatic_reply(
    mailbox: Mailbox,
) -> None:
    arrived = asked(at_once(prepared(mailbox)))
    with firm_scope(mailbox.firm):
        request_action(
            mailbox.message(arrived), ActionType.AUTO_REPLY, {"body": "We look into it."}
        )
    (approval,) = stored(Approval)
    approve(approval, by=person(mailbox))
    drain()
    synced(mailbox)
    assert len(sent(mailbox)) == 1
    assert versions() == [("automatic", "ready", 0)]
    assert (the_thread().classification, the_thread().status) == ("needs_response", "drafted")
    assert state_labels(mailbox, arrived) == {LabelKey.OUTBOX}


def test_a_question_that_comes_together_with_the_automatic_reply_is_judged_and_drafted(
    mailbox: Mailbox,
) -> None:
    prepared(mailbox)
    mailbox.receive(letter("Price list", QUESTION, message_id="<q1@customer.example>"))
    answered_by_a_program(mailbox)
    synced(mailbox)
    assert versions() == [("automatic", "ready", 0)]
    with firm_scope(mailbox.firm):
        briefing = briefing_of(mailbox.account, days=7)
    assert (briefing.for_you.count, briefing.for_others.count) == (1, 0)


def test_a_page_judges_the_question_and_not_the_automatic_reply(mailbox: Mailbox) -> None:
    arrived = mailbox.receive(letter("Price list", QUESTION, message_id="<q1@customer.example>"))
    answered_by_a_program(mailbox)
    mailbox.store_all()
    message = mailbox.message(arrived)
    classify_page(mailbox.account, [message.pk], OfflineClassifier(), job_id=uuid4())
    assert the_thread().classification == Category.NEEDS_RESPONSE


def test_a_draft_that_is_discarded_after_the_automatic_reply_was_not_sent(
    mailbox: Mailbox,
) -> None:
    asked(prepared(mailbox))
    answered_by_a_program(mailbox)
    mailbox.gmail.delete_draft(listed(mailbox)[0]["id"])
    synced(mailbox)
    assert versions() == [("automatic", "discarded", 0)]
    assert the_thread().status == "skipped"


def test_a_draft_that_the_person_orders_is_written_after_the_automatic_reply(
    mailbox: Mailbox,
) -> None:
    arrived = asked(prepared(mailbox), "Thank you very much for the list.")
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    answered_by_a_program(mailbox)
    synced(mailbox)
    assert versions() == [("manual", "ready", 0)]
    assert not any(one.get("skipped") for one in finished("manual_draft"))
