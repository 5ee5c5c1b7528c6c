"""Notes and orders for a rework are not lost with the draft that contains them."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage

import pytest

from jobs.testing import frozen_time, run_job
from mail.gmail.simulator.faults import LOST_REQUEST
from mail.labels import LabelKey
from mail.models import MAX_INSTRUCTION_LENGTH, Draft, EventType, MailEvent
from mail.services.drafting.requests import enqueue_manual_draft
from mail.services.drafting.write_draft import NOTES_KEPT
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    MARK,
    asked,
    begin_draft,
    change_draft,
    draft_by_hand,
    edit,
    give_label,
    in_gmail,
    listed,
    order,
    prepared,
    state_labels,
    synced,
    versions,
)
from tests.mail.mail_kit import Mailbox, drain, letter, stored, without_drafts
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]

# Separate words, because Gmail may wrap the lines without changing the text.
LONG = "word " * (MAX_INSTRUCTION_LENGTH // 5 + 1) + "the end."


def attach(mail: EmailMessage) -> None:
    mail.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="offer.pdf")


def show_image(mail: EmailMessage) -> None:
    mail.add_alternative('See <img src="cid:plan">', subtype="html")
    mail.get_payload()[1].add_related(b"\x89PNG", "image", "png", cid="<plan>")  # type: ignore[union-attr]  # multipart


def noted(mailbox: Mailbox, notes: str) -> str:
    """Let the person begin a draft beside a question that has none; return the question's id."""
    without_drafts(prepared(mailbox))
    arrived = asked(mailbox, "For your information: we are moving.")
    begin_draft(mailbox, arrived, notes)
    return arrived


@pytest.mark.parametrize(
    "change",
    [
        attach,
        show_image,
        lambda mail: mail.set_content(LONG),
        lambda mail: mail.set_content(f"{LONG}\n{MARK}\nold text"),
        lambda mail: mail.set_content(
            "Say yes.\n\nOn 3 Nov 2026 Anna wrote:\n\n> When?\n\nAt six."
        ),
        lambda mail: mail.set_content("Say yes, in these words:\n\n> We are glad to come."),
    ],
    ids=[
        *("file", "image", "long", "long above the marker"),
        *("an answer below the quote", "words to quote"),
    ],
)
def test_notes_that_no_row_can_keep_stay_beside_the_draft(
    mailbox: Mailbox, change: Callable[[EmailMessage], object]
) -> None:
    arrived = noted(mailbox, "Say yes.")
    change_draft(mailbox, change)
    (before,) = listed(mailbox)

    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)

    assert listed(mailbox)[1:] == [before]
    assert in_gmail(mailbox)[0].get_content().strip().startswith(MARK)
    assert versions() == [("manual", "ready", 0)]
    assert stored(Draft)[0].instruction[:4] in ("Say ", "word")
    assert state_labels(mailbox, arrived) == {LabelKey.OUTBOX}
    kept = [one for one in stored(MailEvent) if one.event_type == EventType.DRAFT_KEPT]
    assert [one.detail for one in kept] == [{"reason": NOTES_KEPT}]


def test_notes_just_short_enough_are_kept_in_the_drafts_row(mailbox: Mailbox) -> None:
    notes = LONG[-MAX_INSTRUCTION_LENGTH:].strip()
    arrived = noted(mailbox, notes)
    result = draft_by_hand(mailbox, arrived)
    assert result["rework_count"] == 0
    (draft,) = in_gmail(mailbox)
    assert "the end." in draft.get_content()


def test_notes_that_were_changed_before_the_second_attempt_stay(mailbox: Mailbox) -> None:
    """The composed text in the row answers the notes as they were before."""
    arrived = noted(mailbox, "Say yes.")
    with firm_scope(mailbox.firm):
        requested = enqueue_manual_draft(mailbox.message(arrived))
    mailbox.simulator.order_fault(LOST_REQUEST, method="messages.trash")
    assert run_job(requested.job).status == "pending"
    edit(mailbox, "Say yes, and that we close in August.")
    with later(3600):
        drain()
    texts = [draft.get_content() for draft in in_gmail(mailbox)]
    assert len(texts) == 2
    assert any("we close in August" in text and MARK not in text for text in texts)
    assert versions() == [("manual", "ready", 0)]


def test_an_order_that_no_row_can_keep_stays_beside_the_rework(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    order(mailbox, LONG)
    give_label(mailbox, arrived, LabelKey.REWORK)
    synced(mailbox)
    assert [status for _, status, _ in versions()] == ["kept", "ready"]
    texts = [draft.get_content() for draft in in_gmail(mailbox)]
    assert len(texts) == 2
    assert "the end." in texts[1]


def test_notes_are_kept_for_the_answer_to_what_came_before_the_second_attempt(
    mailbox: Mailbox,
) -> None:
    arrived = noted(mailbox, "Say that we close in August.")
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    mailbox.simulator.order_fault(LOST_REQUEST, method="drafts.create")
    # The clock stands still, so that the next attempt is not due, however long this takes.
    with frozen_time():
        synced(mailbox)
        assert (listed(mailbox), versions()) == ([], [("manual", "writing", 0)])
        mailbox.receive(letter("Re: Price list", "And you?", reply_to_id="<q1@customer.example>"))
        synced(mailbox)
    with later(3600):
        drain()
    assert versions() == [("manual", "canceled", 0), ("manual", "ready", 0)]
    assert stored(Draft)[-1].instruction == "Say that we close in August."
