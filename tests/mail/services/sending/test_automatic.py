"""Automatic messages go to people, never begin a loop, and reach each sender once a day."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from jobs.operations import limits
from jobs.queue import cancel, retry
from mail.errors import AutomaticRefused, WrongState
from mail.gmail.mime import OUTBOUND_HEADER
from mail.gmail.simulator.faults import Fault
from mail.models import Action, ActionType, Approval, OutboundMessage, OutboundStatus
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import approve
from mail.services.sending import loop_guard
from mail.services.sending.outbound_operations import send_again
from mail.services.sending.send import send_outbound
from tenants.scope import firm_scope
from tests.mail.action_kit import ask, current, received
from tests.mail.approval_kit import person, reread
from tests.mail.mail_kit import ANNA, OWNER, Mailbox, drain, jobs, letter, only, stored
from tests.mail.send_kit import at_once, forward, sent
from tests.mail.send_kit import current as sending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18")]

MX = "mx.google.com"
OUT_OF_OFFICE = "We are back on Monday."


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def reply(box: Mailbox, arrived: str) -> Action:
    """Ask for an automatic reply to the message."""
    return ask(box, arrived, "auto_reply", body=OUT_OF_OFFICE)


def waiting_reply(box: Mailbox, arrived: str) -> Approval:
    """Ask for approval of an automatic reply to the message."""
    with firm_scope(box.firm):
        action = request_action(
            box.message(arrived), ActionType.AUTO_REPLY, {"body": OUT_OF_OFFICE}
        )
    found: Approval = only(stored(Approval), action_id=action.pk)
    return found


def later(box: Mailbox, age: timedelta) -> None:
    """Send what waits, then make all outbound messages older by this time."""
    drain()
    with firm_scope(box.firm):
        for one in OutboundMessage.objects.all():
            one.created_at -= age
            one.send_after = one.send_after and one.send_after - age
            one.sent_at = one.sent_at and one.sent_at - age
            one.save(update_fields=["created_at", "send_after", "sent_at"])


def refused(box: Mailbox, arrived: str) -> str:
    """Check that no automatic reply is sent; return why not."""
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
    for spelled in (OWNER, OWNER.replace("@", "+copy@")):
        with pytest.raises(AutomaticRefused, match="own owner"):
            forward(box, received(box), spelled, automatic=True)
    # A person may forward mail to the mailbox's owner.
    forward(box, arrived, "bob@partner.example")


def test_a_sender_has_one_automatic_reply_a_day(box: Mailbox) -> None:
    assert current(reply(box, received(box))).status == "executing"
    second = current(reply(box, received(box, sender="ANNA@Customer.example")))
    assert (second.status, "within the last day" in second.error) == ("failed", True)
    assert current(reply(box, received(box, sender="bob@partner.example"))).status == "executing"
    later(box, timedelta(days=1, minutes=1))
    assert current(reply(box, received(box))).status == "executing"


@pytest.mark.req("M-24")
def test_a_sender_has_one_automatic_reply_a_day_whenever_somebody_says_yes(box: Mailbox) -> None:
    first = waiting_reply(box, received(box))
    later(box, timedelta(days=1, minutes=1))
    second = waiting_reply(box, received(box))
    by = person(box)
    assert approve(first, by=by).refused == ""
    assert "within the last day" in approve(second, by=by).refused
    # A reply that needs no approval counts the one that was asked for long ago and sent just now.
    assert "within the last day" in current(reply(box, received(box))).error
    drain()
    assert (len(sent(box)), reread(second).status) == (1, "pending")
    later(box, timedelta(days=1, minutes=1))
    assert approve(second, by=by).refused == ""
    drain()
    assert len(sent(box)) == 2


@pytest.mark.req("M-24")
def test_a_mailbox_sends_so_many_automatic_replies_an_hour_whenever_somebody_says_yes(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_guard, "MAX_AUTO_REPLIES_AN_HOUR", 1)
    first = waiting_reply(box, received(box, sender="ticket-1@desk.example"))
    later(box, timedelta(hours=1, minutes=1))
    second = waiting_reply(box, received(box, sender="ticket-2@desk.example"))
    assert approve(first, by=person(box)).refused == ""
    refused = approve(second, by=person(box, name="bob@acme.example")).refused
    assert "too many automatic replies" in refused


@pytest.mark.req("M-24")
def test_a_reply_that_was_sent_counts_for_an_hour(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_guard, "MAX_AUTO_REPLIES_AN_HOUR", 1)
    reply(box, received(box, sender="ticket-1@desk.example"))
    drain()
    assert len(sent(box)) == 1
    refused = current(reply(box, received(box, sender="ticket-2@desk.example")))
    assert "too many automatic replies" in refused.error


@pytest.mark.req("M-24")
def test_a_reply_that_still_waits_to_go_out_counts_however_long(box: Mailbox) -> None:
    first = waiting_reply(box, received(box))
    with firm_scope(box.firm):
        pause = limits.pause(firm=box.firm, job_type="outbound.send", reason="a look")
    assert approve(first, by=person(box)).refused == ""
    later(box, timedelta(days=1, minutes=1))
    assert "within the last day" in current(reply(box, received(box))).error
    with firm_scope(box.firm):
        limits.resume(pause)
    drain()
    assert len(sent(box)) == 1


@pytest.mark.req("M-24")
@pytest.mark.parametrize(
    ("status", "recent"),
    [
        (OutboundStatus.SENT, "sent_at"),
        # Nobody can tell whether this message was sent when its delay ended.
        (OutboundStatus.UNKNOWN, "send_after"),
    ],
)
def test_a_reply_asked_for_long_ago_that_went_or_may_have_gone_today_counts(
    box: Mailbox, status: OutboundStatus, recent: str
) -> None:
    first = reply(box, received(box))
    later(box, timedelta(days=1, minutes=1))
    with firm_scope(box.firm):
        OutboundMessage.objects.filter(action=first).update(
            **{"status": status, recent: timezone.now() - timedelta(hours=1)}
        )
    assert "within the last day" in current(reply(box, received(box))).error


@pytest.mark.req("M-24")
def test_of_two_replies_approved_at_the_same_moment_one_goes_out(box: Mailbox) -> None:
    first = waiting_reply(box, received(box))
    later(box, timedelta(days=1, minutes=1))
    second, by = waiting_reply(box, received(box)), person(box)
    at_the_same_moment(lambda: approve(first, by=by), lambda: approve(second, by=by))
    drain()
    assert len(sent(box)) == 1
    assert sorted(one.status for one in stored(Approval)) == ["approved", "pending"]


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
    later(box, timedelta(hours=1, minutes=1))
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


def unsent(box: Mailbox, status: OutboundStatus, sender: str = ANNA) -> OutboundMessage:
    """Return an automatic reply that was released and ended so."""
    action = reply(box, received(box, sender=sender))
    with firm_scope(box.firm):
        OutboundMessage.objects.filter(action=action).update(status=status)
        for job in jobs("outbound.send"):
            cancel(job)
    found: OutboundMessage = only(stored(OutboundMessage), action_id=action.pk)
    return found


@pytest.mark.req("M-24")
@pytest.mark.parametrize("status", [OutboundStatus.FAILED, OutboundStatus.CANCELED])
def test_a_reply_that_is_sent_again_is_held_to_one_a_day(
    box: Mailbox, status: OutboundStatus
) -> None:
    first = unsent(box, status)
    reply(box, received(box))
    drain()
    assert len(sent(box)) == 1
    with pytest.raises(WrongState, match="had an automatic reply within the last day"):
        send_again(first, reason="She asked twice")
    drain()
    assert (len(sent(box)), sending(first).status) == (1, status)
    later(box, timedelta(days=1, minutes=1))
    send_again(first, reason="She asked twice")
    # It counts from now on, like any other.
    assert "within the last day" in current(reply(box, received(box))).error
    drain()
    assert len(sent(box)) == 2


@pytest.mark.req("M-24")
def test_replies_that_are_sent_again_are_held_to_so_many_an_hour(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_guard, "MAX_AUTO_REPLIES_AN_HOUR", 1)
    senders = ["ticket-1@desk.example", "ticket-2@desk.example"]
    first, second = [unsent(box, OutboundStatus.FAILED, sender) for sender in senders]
    send_again(first, reason="Gmail was away")
    with pytest.raises(WrongState, match="too many automatic replies"):
        send_again(second, reason="Gmail was away")
    drain()
    assert len(sent(box)) == 1


@pytest.mark.req("M-24")
def test_a_reply_that_may_have_been_sent_does_not_stand_in_its_own_way(box: Mailbox) -> None:
    first = unsent(box, OutboundStatus.UNKNOWN)
    send_again(first, reason="It is not in the sent mail")
    drain()
    assert (len(sent(box)), sending(first).status) == (1, "sent")


@pytest.mark.req("M-24")
def test_failed_replies_whose_jobs_are_retried_are_held_to_the_limit(box: Mailbox) -> None:
    action = reply(box, received(box))
    (job,) = jobs("outbound.send")
    box.simulator.order_fault(
        Fault(status=403, reason="insufficientPermissions"), method="drafts.create"
    )
    drain()
    first = only(stored(OutboundMessage), action_id=action.pk)
    assert first.status == "failed"
    reply(box, received(box))
    drain()
    with firm_scope(box.firm):
        retry(job)
    drain()
    assert len(sent(box)) == 1
    assert (sending(first).status, "within the last day" in sending(first).error) == (
        "failed",
        True,
    )
    assert [one.error for one in stored(OutboundMessage) if one.pk != first.pk] == [""]
    later(box, timedelta(days=1, minutes=1))
    send_again(first, reason="She asked twice")
    drain()
    assert len(sent(box)) == 2


def test_a_job_that_is_no_longer_the_replys_leaves_its_error_alone(box: Mailbox) -> None:
    action = reply(box, received(box))
    box.simulator.order_fault(
        Fault(status=403, reason="insufficientPermissions"), method="drafts.create"
    )
    drain()
    first = only(stored(OutboundMessage), action_id=action.pk)
    reply(box, received(box))
    drain()

    result = send_outbound(box.account, box.gmail, first.pk, job_id=uuid4(), release=first.releases)

    assert result["skipped"]
    assert sending(first).error == first.error != ""


@pytest.mark.req("M-24")
def test_of_two_replies_sent_again_at_the_same_moment_one_goes_out(box: Mailbox) -> None:
    first, second = [unsent(box, OutboundStatus.FAILED) for _ in range(2)]

    def again(one: OutboundMessage) -> None:
        with suppress(WrongState):
            send_again(one, reason="Gmail was away")

    at_the_same_moment(lambda: again(first), lambda: again(second))
    drain()
    assert len(sent(box)) == 1
    assert sorted(one.status for one in stored(OutboundMessage)) == ["failed", "sent"]


def test_of_two_replies_at_the_same_moment_one_goes_out(box: Mailbox) -> None:
    first, second = received(box), received(box)
    at_the_same_moment(lambda: reply(box, first), lambda: reply(box, second))
    drain()
    assert len(sent(box)) == 1
    assert sorted(one.status for one in stored(Action)) == ["completed", "failed"]


def at_the_same_moment(*calls: Callable[[], object]) -> None:
    """Make the calls at the same moment, each on a thread of its own."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait()
        call()
        connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
