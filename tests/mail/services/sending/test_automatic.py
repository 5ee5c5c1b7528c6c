"""What nobody wrote goes to people, never in circles, and to each sender once a day."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from mail.errors import AutomaticRefused
from mail.gmail.mime import OUTBOUND_HEADER
from mail.models import Action, OutboundMessage, OutboundStatus
from mail.services.sending import loop_guard
from tenants.scope import firm_scope
from tests.mail.action_kit import ask, current, received
from tests.mail.mail_kit import ANNA, OWNER, Mailbox, drain, letter, stored
from tests.mail.send_kit import at_once, forward, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18")]

MX = "mx.google.com"
OUT_OF_OFFICE = "We are back on Monday."


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def reply(box: Mailbox, arrived: str) -> Action:
    """Ask for an automatic reply to the message."""
    return ask(box, arrived, "auto_reply", body=OUT_OF_OFFICE)


def refused(box: Mailbox, arrived: str) -> str:
    """Return why the message is not answered, by nobody and at no time."""
    action = current(reply(box, arrived))
    drain()
    assert (action.status, action.job_id, sent(box)) == ("failed", None, [])
    return action.error


def test_an_automatic_reply_says_what_it_is(box: Mailbox) -> None:
    action = reply(box, received(box, message_id="<one@customer.example>"))
    drain()
    (mail,) = sent(box)
    assert (mail["To"], mail["In-Reply-To"]) == (ANNA, "<one@customer.example>")
    assert mail["Auto-Submitted"] == "auto-replied"
    assert mail["X-Auto-Response-Suppress"] == "All"
    assert mail.get_content() == f"{OUT_OF_OFFICE}\n"
    done = current(action)
    assert (done.status, (done.undo_hint or {})["irreversible"]) == ("completed", True)
    (outbound,) = stored(OutboundMessage)
    assert mail[OUTBOUND_HEADER] == str(outbound.pk)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Auto_Submitted": "auto-replied"}, "auto submitted"),
        ({"Auto_Submitted": "auto-generated (by a cat)"}, "auto submitted"),
        ({"Precedence": "bulk"}, "bulk"),
        ({"Precedence": "Junk"}, "bulk"),
        ({"Precedence": "list"}, "mailing list"),
        ({"List_Id": "<all.lists.example>"}, "mailing list"),
        ({"List_Unsubscribe": "<mailto:u@lists.example>"}, "mailing list"),
        ({"Return_Path": "<>"}, "null return path"),
        ({"X_Auto_Response_Suppress": "All"}, "bulk"),
        ({"sender": "MAILER-DAEMON@mx.example"}, "robot sender"),
        ({"sender": "no-reply@shop.example"}, "robot sender"),
        ({"Reply_To": "noreply@shop.example"}, "robot sender"),
        ({"Reply_To": "a@x.example, victim@y.example"}, "several addresses"),
        ({"Reply_To": OWNER}, "own owner"),
        ({"sender": OWNER}, "own owner"),
        ({OUTBOUND_HEADER: "0" * 32}, "sent by Mailroom"),
        ({"Authentication_Results": f"{MX}; dmarc=fail header.from=customer.example"}, "be forged"),
        ({"Authentication_Results": f"{MX}; dkim=pass header.d=evil.example"}, "be forged"),
    ],
)
def test_a_machine_a_list_and_the_owner_are_not_answered(
    box: Mailbox, headers: dict[str, str], why: str
) -> None:
    assert why in refused(box, received(box, **headers))


def test_a_sender_whom_the_receiving_server_vouches_for_is_answered(box: Mailbox) -> None:
    said = f"{MX}; dmarc=pass header.from=customer.example"
    reply(box, received(box, Authentication_Results=said))
    drain()
    assert [mail["To"] for mail in sent(box)] == [ANNA]


def test_a_delivery_report_is_not_answered(box: Mailbox) -> None:
    report = letter("Undelivered").replace(b"text/plain", b'multipart/report; boundary="x"')
    arrived = box.receive(report)
    box.store_all()
    assert "delivery report" in refused(box, arrived)


def test_spam_whose_sender_may_be_forged_is_not_answered(box: Mailbox) -> None:
    assert "among spam" in refused(box, received(box, "SPAM", "UNREAD"))


def test_what_mailroom_sent_is_not_passed_on_by_nobody(box: Mailbox) -> None:
    arrived = received(box, **{OUTBOUND_HEADER: "0" * 32})
    with pytest.raises(AutomaticRefused, match="sent by Mailroom"):
        forward(box, arrived, "bob@partner.example", automatic=True)
    with pytest.raises(AutomaticRefused, match="own owner"):
        forward(box, received(box), OWNER, automatic=True)
    # A person may.
    forward(box, arrived, "bob@partner.example")


def test_a_sender_has_one_automatic_reply_a_day(box: Mailbox) -> None:
    assert current(reply(box, received(box))).status == "executing"
    second = current(reply(box, received(box, sender="ANNA@Customer.example")))
    assert (second.status, "within the last day" in second.error) == ("failed", True)
    assert current(reply(box, received(box, sender="bob@partner.example"))).status == "executing"
    with firm_scope(box.firm):
        for one in OutboundMessage.objects.all():
            one.created_at -= timedelta(days=1, minutes=1)
            one.save(update_fields=["created_at"])
    assert current(reply(box, received(box))).status == "executing"


def test_an_address_with_a_tag_is_the_same_sender(box: Mailbox) -> None:
    senders = ["support@desk.example", "support+1@desk.example", "Support+2@desk.example"]
    statuses = [current(reply(box, received(box, sender=one))).status for one in senders]
    assert statuses == ["executing", "failed", "failed"]


def test_a_machine_that_answers_from_ever_new_addresses_is_answered_no_more(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_guard, "MAX_AUTO_REPLIES_AN_HOUR", 2)
    senders = [f"ticket-{number}@desk.example" for number in range(3)]
    first, second, third = [current(reply(box, received(box, sender=one))) for one in senders]
    assert (first.status, second.status, third.status) == ("executing", "executing", "failed")
    assert "too many automatic replies" in third.error
    with firm_scope(box.firm):
        for one in OutboundMessage.objects.all():
            one.created_at -= timedelta(hours=1, minutes=1)
            one.save(update_fields=["created_at"])
    assert current(reply(box, received(box, sender=senders[2]))).status == "executing"


@pytest.mark.parametrize(
    ("status", "again"),
    [
        (OutboundStatus.FAILED, "executing"),
        (OutboundStatus.CANCELED, "executing"),
        (OutboundStatus.REJECTED, "executing"),
        (OutboundStatus.APPROVED_PENDING, "failed"),
        (OutboundStatus.UNKNOWN, "failed"),
    ],
)
def test_what_never_went_out_is_no_reply(box: Mailbox, status: OutboundStatus, again: str) -> None:
    reply(box, received(box))
    with firm_scope(box.firm):
        OutboundMessage.objects.update(status=status)
    assert current(reply(box, received(box))).status == again


def test_of_two_replies_at_the_same_moment_one_goes_out(box: Mailbox) -> None:
    arrived = [received(box) for _ in range(2)]
    start = threading.Barrier(2)

    def at_the_same_moment(one: str) -> Callable[[], None]:
        def run() -> None:
            start.wait()
            reply(box, one)
            connection.close()

        return run

    threads = [threading.Thread(target=at_the_same_moment(one)) for one in arrived]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drain()
    assert len(sent(box)) == 1
    assert sorted(one.status for one in stored(Action)) == ["completed", "failed"]
