"""What nobody wrote is not sent after the owner has answered, or thrown the message away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.models import Action, ActionType, Approval, MailAccount, Message, OutboundMessage
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import approve
from mail.services.sending.loop_guard import ANSWERED
from mail.services.sending.sent_mail import ALREADY_SENT
from tenants.scope import firm_scope
from tests.mail.action_kit import ask, current, received
from tests.mail.approval_kit import outbound_of, person, reread
from tests.mail.draft_kit import synced
from tests.mail.mail_kit import ANNA, OWNER, Mailbox, drain, drain_later, letter, only, stored
from tests.mail.send_kit import at_once, drafts, sent

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = "<q1@customer.example>"


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def reply(box: Mailbox, arrived: str) -> Action:
    """Ask for an automatic reply to the message."""
    return ask(box, arrived, "auto_reply", body="We are back on Monday.")


def reply_later(box: Mailbox, arrived: str) -> Action:
    """Ask for an automatic reply that waits for its delay."""
    with firm_scope(box.firm):
        MailAccount.objects.update(send_delay_seconds=60)
    return reply(box, arrived)


def answer(box: Mailbox, to: str = ANNA, **headers: str) -> str:
    """Let the owner answer the message in another program; return Gmail's id."""
    raw = letter("Re: Message 0", sender=OWNER, to=to, reply_to_id=ASKED, **headers)
    return box.receive(raw, labels=("SENT",), at=after(seconds=2))


def after(seconds: int) -> datetime:
    """Return a moment after everything that a test has let arrive."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


def waiting_reply(box: Mailbox, arrived: str) -> Approval:
    """Ask for approval of an automatic reply to the message."""
    with firm_scope(box.firm):
        action = request_action(box.message(arrived), ActionType.AUTO_REPLY, {"body": "Monday."})
    found: Approval = only(stored(Approval), action_id=action.pk)
    return found


def test_an_answered_message_gets_no_automatic_reply(box: Mailbox) -> None:
    arrived = received(box, message_id=ASKED)
    answer(box)
    box.store_all()
    action = current(reply(box, arrived))
    drain()
    assert (action.status, action.error, len(sent(box))) == ("failed", ANSWERED, 1)


def test_a_message_that_was_answered_after_the_backup_is_not_answered_again(box: Mailbox) -> None:
    reply(box, received(box, message_id=ASKED))
    drain()
    # The message came after the backup, so the restored database has never seen it, nor the reply.
    with firm_scope(box.firm):
        for model in (OutboundMessage, Action, Message):
            model.objects.all().delete()
    box.store_all()
    (arrived,) = [one.gmail_message_id for one in stored(Message) if not one.outgoing]
    action = reply(box, arrived)
    drain()
    assert len(sent(box)) == 1
    assert current(action).error == ALREADY_SENT


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not stored yet"])
def test_an_answer_that_comes_while_the_reply_waits_takes_its_place(
    box: Mailbox, is_stored: bool
) -> None:
    action = reply_later(box, received(box, message_id=ASKED))
    answer(box)
    if is_stored:
        box.store_all()
    drain_later()
    assert (current(action).status, current(action).error) == ("canceled", ANSWERED)
    (outbound,) = stored(OutboundMessage)
    assert (outbound.status, len(sent(box))) == ("canceled", 1)


def test_an_answer_is_seen_though_gmail_does_not_answer_at_first(box: Mailbox) -> None:
    action = reply_later(box, received(box, message_id=ASKED))
    answer(box)
    box.simulator.order_fault(Fault(status=503), method="threads.get")
    drain_later(2)
    assert (current(action).status, len(sent(box))) == ("canceled", 1)


@pytest.mark.parametrize(
    "throw_away",
    [
        lambda box, arrived: box.gmail.trash(arrived),
        lambda box, arrived: box.gmail.modify_message(arrived, ["SPAM"], ["INBOX"]),
        lambda box, arrived: box.gmail.delete_message(arrived),
        lambda box, arrived: (box.gmail.delete_message(arrived), synced(box)),
    ],
    ids=["trash", "spam", "deleted", "deleted here, too"],
)
def test_a_message_thrown_away_while_the_reply_waits_is_not_answered(
    box: Mailbox, throw_away: Callable[[Mailbox, str], object]
) -> None:
    arrived = received(box, message_id=ASKED)
    reply_later(box, arrived)
    throw_away(box, arrived)
    drain_later()
    (outbound,) = stored(OutboundMessage)
    assert (outbound.status, sent(box)) == ("canceled", [])


@pytest.mark.parametrize(
    ("to", "headers"),
    [
        ("Ben <ben@customer.example>", {}),
        ("Ben <ben@customer.example>", {"X_Mailroom_Message": "0198c7a2"}),
        (ANNA, {"Auto_Submitted": "auto-replied"}),
    ],
    ids=["to somebody else", "to somebody else, by Mailroom", "by a machine"],
)
def test_what_is_no_answer_of_the_owners_changes_nothing(
    box: Mailbox, to: str, headers: dict[str, str]
) -> None:
    arrived = received(box, message_id=ASKED)
    answer(box, to, **headers)
    box.store_all()
    action = reply_later(box, arrived)
    answer(box, to, text="Again.", **headers)
    drain_later()
    assert (current(action).status, len(sent(box))) == ("completed", 3)


def test_an_answer_to_an_earlier_message_is_none_to_a_later_one(box: Mailbox) -> None:
    received(box, message_id=ASKED)
    answer(box)
    again = box.receive(letter("Re: Message 0", reply_to_id=ASKED), at=after(seconds=5))
    box.store_all()
    drain()
    action = reply(box, again)
    drain()
    assert (current(action).status, len(sent(box))) == ("completed", 2)


def test_an_answer_by_hand_ends_an_approval(box: Mailbox) -> None:
    approval = waiting_reply(box, received(box, message_id=ASKED))
    answer(box)
    box.store_all()
    decided = approve(approval, by=person(box))
    drain()
    assert (decided.refused, reread(approval).status) == (ANSWERED.rstrip("."), "canceled")
    assert (outbound_of(approval).status, len(sent(box))) == ("rejected", 1)


def test_what_a_person_has_approved_is_sent_though_the_message_was_thrown_away(
    box: Mailbox,
) -> None:
    arrived = received(box, message_id=ASKED)
    approval = waiting_reply(box, arrived)
    box.gmail.trash(arrived)
    assert not approve(approval, by=person(box)).refused
    drain()
    assert (outbound_of(approval).status, len(sent(box))) == ("sent", 1)


@pytest.mark.parametrize(
    ("method", "fault"), [("drafts.create", LOST_ANSWER), ("drafts.send", Fault(status=503))]
)
def test_a_begun_reply_that_the_owner_overtakes_leaves_no_draft(
    box: Mailbox, method: str, fault: Fault
) -> None:
    """Its draft is in Gmail, in the first case though the answer to making it was lost."""
    box.simulator.order_fault(fault, method=method)
    action = reply(box, received(box, message_id=ASKED))
    drain()
    assert drafts(box) == 1
    answer(box)
    drain_later()
    assert (current(action).status, len(sent(box)), drafts(box)) == ("canceled", 1, 0)


def test_a_reply_whose_draft_is_gone_is_not_taken_for_unsent(box: Mailbox) -> None:
    """Whoever took the draft, another worker perhaps, may have sent it."""
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    action = reply(box, received(box, message_id=ASKED))
    drain()
    answer(box)
    box.simulator.order_fault(Fault(status=404), method="drafts.delete")
    drain_later()
    assert current(action).status != "canceled"


def test_a_reply_that_was_sent_before_the_owner_answered_counts_as_sent(box: Mailbox) -> None:
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    action = reply(box, received(box, message_id=ASKED))
    drain()
    answer(box)
    drain_later()
    assert (current(action).status, len(sent(box)), drafts(box)) == ("completed", 2, 0)


def test_an_answer_from_before_the_approval_was_asked_for_ends_it_when_it_is_stored(
    box: Mailbox,
) -> None:
    arrived = received(box, message_id=ASKED)
    answered = letter("Re: Message 0", sender=OWNER, to=ANNA, reply_to_id=ASKED)
    box.receive(answered, labels=("SENT",), at=after(seconds=0))
    approval = waiting_reply(box, arrived)
    box.store_all()
    decided = approve(approval, by=person(box))
    drain()
    assert (decided.refused, reread(approval).status) == (ANSWERED.rstrip("."), "canceled")
    assert len(sent(box)) == 1
