"""To whom a draft goes, and what the model is shown of their mail."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from mail.models import Draft
from tests.mail.draft_kit import QUESTION, asked, finished, in_gmail, prepared, synced
from tests.mail.llm.model_server import ModelServer
from tests.mail.mail_kit import OWNER, Mailbox, letter, stored

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
