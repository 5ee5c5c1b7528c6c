"""To whom a draft is addressed, and which of their mail the model is shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from mail.gmail.simulator.faults import Fault
from mail.labels import LabelKey
from mail.models import Draft
from mail.services.drafting.requests import enqueue_manual_draft
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    edit,
    finished,
    give_label,
    in_gmail,
    prepared,
    state_labels,
    synced,
    the_thread,
)
from tests.mail.llm.model_server import ModelServer
from tests.mail.mail_kit import OWNER, Mailbox, drain, letter, stored, without_drafts
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]

WANTS = {"category": "needs_response", "confidence": 0.9, "rationale": "A question."}
ANNA_WRITTEN = "Anna Novak <anna@customer.example>"
NO_ANSWER = "Nobody reads an answer: robot sender, by the header Reply-To"


@pytest.mark.req("M-09")
@pytest.mark.parametrize(
    "reply_to",
    ["noreply@customer.example", "Mailer-Daemon@x.example", "news@lists.acme.example"],
)
def test_no_draft_goes_to_a_robot_or_a_list_in_reply_to(mailbox: Mailbox, reply_to: str) -> None:
    asked(prepared(mailbox), Reply_To=f"Anna <anna@customer.example>, {reply_to}")
    assert in_gmail(mailbox) == []
    assert [one["reason"] for one in finished("draft")] == [NO_ANSWER]


@pytest.mark.parametrize(
    ("reply_to", "recipients"),
    [
        (OWNER, ANNA_WRITTEN),
        (f"{OWNER}, eve@x.example", "eve@x.example"),
        (
            "=?utf-8?Q?user=40victim.example=2C_via_portal?= <ticket@desk.example>",
            '"user@victim.example, via portal" <ticket@desk.example>',
        ),
    ],
    ids=["the owner alone", "the owner and another", "an address in an encoded name"],
)
def test_a_draft_goes_to_reply_to_without_the_owner(
    mailbox: Mailbox, reply_to: str, recipients: str
) -> None:
    prepared(mailbox)
    raw = letter("Price list", QUESTION, message_id="<q1@customer.example>")
    mailbox.receive(raw.replace(b"Subject:", f"Reply-To: {reply_to}\nSubject:".encode(), 1))
    synced(mailbox)
    assert [draft["To"] for draft in in_gmail(mailbox)] == [recipients]


@pytest.mark.req("M-09")
def test_a_form_under_the_owners_address_is_answered_to_its_visitor(mailbox: Mailbox) -> None:
    prepared(mailbox)
    mailbox.receive(
        letter("Inquiry", QUESTION, sender=OWNER, Reply_To="Vera <vera@visitor.example>")
    )
    synced(mailbox)
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Vera <vera@visitor.example>"]


FORM = "Contact form <forms@acme-shop.example>"


@pytest.mark.req("M-13")
@pytest.mark.parametrize("sender", [FORM, "Vera <vera@victim.example>"], ids=["form", "forged"])
def test_the_model_is_shown_no_earlier_mail_where_the_answer_goes_elsewhere(
    mailbox: Mailbox, model: ModelServer, sender: str
) -> None:
    prepared(mailbox)
    model.answers = [{**WANTS, "category": "fyi"}]
    mailbox.receive(
        letter("From Vera", "The vault code.", sender=sender, Reply_To="vera@victim.example"),
        at=datetime.now(UTC) - timedelta(days=1),
    )
    synced(mailbox)
    model.asked.clear()
    model.answers = [WANTS, {"text": "A."}]
    asked(mailbox, sender=sender, Reply_To="Eve <eve@evil.example>")
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Eve <eve@evil.example>"]
    assert "vault code" not in json.dumps(model.asked)
    assert [row.related for row in stored(Draft)] == [0]


def inquiry(mailbox: Mailbox, name: str, text: str, *, minutes_ago: int = 0) -> str:
    """Let an inquiry by the website's form arrive, all in one thread; return Gmail's id."""
    return mailbox.receive(
        letter(
            "Price list", text, sender=FORM, Reply_To=f"{name} <{name.lower()}@visitor.example>",
            message_id=f"<{name}@acme-shop.example>", reply_to_id="<form@acme-shop.example>",
        ),
        at=datetime.now(UTC) - timedelta(minutes=minutes_ago),
    )  # fmt: skip


@pytest.mark.req("M-13")
def test_of_several_who_use_a_form_in_one_thread_nobody_learns_what_another_wrote(
    mailbox: Mailbox, model: ModelServer
) -> None:
    prepared(mailbox)
    model.answers = [WANTS, {"text": "For Vera."}]
    inquiry(mailbox, "Vera", "The vault code is 4711. Could you answer?", minutes_ago=9)
    synced(mailbox)
    mailbox.receive(
        letter("Re: Price list", "The code is changed.", sender=OWNER, to="vera@visitor.example",
               reply_to_id="<Vera@acme-shop.example>"),
        labels=("SENT",), at=datetime.now(UTC) - timedelta(minutes=5),
    )  # fmt: skip
    model.answers = [{**WANTS, "category": "waiting"}]
    synced(mailbox)
    model.asked.clear()
    model.answers = [WANTS, {"text": "For Eve."}]
    inquiry(mailbox, "Eve", QUESTION)
    synced(mailbox)
    assert len({one.thread_id for one in mailbox.messages()}) == 1
    assert in_gmail(mailbox)[0]["To"] == "Eve <eve@visitor.example>"
    shown = json.dumps(model.asked)
    assert "4711" not in shown
    assert "code is changed" not in shown


def test_the_label_on_an_inquiry_asks_for_an_answer_to_who_wrote_it(mailbox: Mailbox) -> None:
    without_drafts(prepared(mailbox))
    vera = inquiry(mailbox, "Vera", QUESTION, minutes_ago=9)
    inquiry(mailbox, "Eve", QUESTION)
    synced(mailbox)
    with firm_scope(mailbox.firm):
        enqueue_manual_draft(mailbox.message(vera))
    drain()
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Vera <vera@visitor.example>"]


def test_the_label_on_an_inquiry_moves_the_threads_draft_to_who_wrote_it(mailbox: Mailbox) -> None:
    vera = inquiry(prepared(mailbox), "Vera", QUESTION, minutes_ago=9)
    eve = inquiry(mailbox, "Eve", QUESTION)
    synced(mailbox)
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Eve <eve@visitor.example>"]
    give_label(mailbox, vera, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Vera <vera@visitor.example>"]
    assert state_labels(mailbox, vera) - {LabelKey.PARENT} == {LabelKey.OUTBOX}
    assert state_labels(mailbox, eve) - {LabelKey.PARENT} == set()


def test_the_last_inquiry_that_is_given_the_label_is_answered_though_gmail_was_away(
    mailbox: Mailbox,
) -> None:
    without_drafts(prepared(mailbox))
    vera = inquiry(mailbox, "Vera", QUESTION, minutes_ago=9)
    ann = inquiry(mailbox, "Ann", QUESTION, minutes_ago=7)
    inquiry(mailbox, "Eve", QUESTION)
    synced(mailbox)
    mailbox.simulator.order_fault(Fault(503), method="drafts.list")
    for wanted in (vera, ann):
        give_label(mailbox, wanted, LabelKey.NEEDS_RESPONSE)
        synced(mailbox)
    with later(3600):
        drain()
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Ann <ann@visitor.example>"]


def test_the_label_on_another_inquiry_leaves_an_edited_draft_alone(mailbox: Mailbox) -> None:
    vera = inquiry(prepared(mailbox), "Vera", QUESTION, minutes_ago=9)
    inquiry(mailbox, "Eve", QUESTION)
    synced(mailbox)
    edit(mailbox, "My own words.")
    give_label(mailbox, vera, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    assert [draft.get_content().strip() for draft in in_gmail(mailbox)] == ["My own words."]


def test_an_answer_to_one_visitor_answers_no_other(mailbox: Mailbox) -> None:
    without_drafts(prepared(mailbox))
    inquiry(mailbox, "Vera", QUESTION, minutes_ago=9)
    inquiry(mailbox, "Eve", QUESTION, minutes_ago=7)
    mailbox.receive(
        letter("Re: Price list", "Here it is.", sender=OWNER, to="vera@visitor.example",
               reply_to_id="<Vera@acme-shop.example>"),
        labels=("SENT",),
    )  # fmt: skip
    synced(mailbox)
    assert the_thread().classification == "needs_response"
