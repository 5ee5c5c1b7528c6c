"""Sending: threads, identities, attachments; once, even if answers are lost; cancelling in time."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.queue import cancel
from mail.errors import OutboundInvalid, WrongState
from mail.gmail.client import GmailClient
from mail.gmail.mime import OUTBOUND_HEADER
from mail.gmail.simulator.faults import LOST_ANSWER, LOST_REQUEST, Fault
from mail.job_handlers import classify as classify_handlers
from mail.llm.base import Category
from mail.models import (
    Action,
    ActionType,
    EventType,
    MailAccount,
    MailEvent,
    Mode,
    OutboundMessage,
)
from mail.services.actions.actions import request_action
from mail.services.actions.sweep import sweep_actions
from mail.services.mailboxes.modes import suggest_only
from mail.services.queueing import request_sync
from mail.services.sending import outbound as outbound_services
from mail.services.sending import send
from mail.services.sending.outbound import database_identity
from mail.services.sending.outbound_operations import cancel_outbound, send_again
from tenants.scope import firm_scope
from tests.mail.mail_kit import FixedClassifier, Mailbox, drain, jobs, letter, only, stored
from tests.mail.send_kit import answer, at_once, attempts, current, drafts, forward, sent
from tests.queue_kit import later

REFUSED = Fault(status=403, reason="domainPolicy")
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18")]


@pytest.fixture
def box(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """Return a mailbox that sends without delay, and whose mail gets no draft."""
    fyi = FixedClassifier(Category.FYI)
    monkeypatch.setattr(classify_handlers, "classifier_for", lambda *_, **__: fyi)
    return at_once(mailbox)


def received(box: Mailbox, raw: bytes | None = None) -> str:
    arrived = box.receive(raw or letter("Ceník", message_id="<one@customer.example>"))
    box.store_all()
    drain()
    return arrived


def test_an_answer_lands_in_the_thread(box: Mailbox) -> None:
    arrived = received(box)
    outbound = answer(box, arrived, "Příští úterý.\nAda")
    drain()
    done, (mail,) = current(outbound), sent(box)
    assert (done.status, done.error) == ("sent", "")
    assert mail["Subject"] == "Re: Ceník"
    assert mail["To"] == "Anna Novak <anna@customer.example>"
    assert mail["From"] == box.account.address
    assert mail["In-Reply-To"] == mail["References"] == "<one@customer.example>"
    assert mail["Message-ID"] == done.rfc822_id
    assert mail.get_content() == "Příští úterý.\nAda\n"
    thread = box.gmail.get_thread(box.message(arrived).thread.gmail_thread_id, fmt="minimal")
    assert [one["id"] for one in thread["messages"]] == [arrived, done.gmail_message_id]
    assert drafts(box) == 0
    event = only(stored(MailEvent), event_type=EventType.SENT)
    assert event.detail == {"outbound_id": str(outbound.pk), "kind": "reply"}


def test_an_answer_goes_to_no_address_in_the_senders_name(box: Mailbox) -> None:
    name = rb'"Anna \"Ann\" Novak, of the Sales Department, <eve@evil.example>, Prague branch"'
    raw = letter(message_id="<one@customer.example>").replace(b"From: Anna Novak", b"From: " + name)
    answer(box, received(box, raw))
    drain()
    (mail,) = sent(box)
    assert [one.addr_spec for one in mail["To"].addresses] == ["anna@customer.example"]


def test_a_forwarded_message_begins_a_thread_and_takes_its_attachments_along(box: Mailbox) -> None:
    original = email.message_from_bytes(letter("Plán hřiště"), policy=email.policy.default)
    original.add_attachment(
        b"%PDF-1", maintype="application", subtype="pdf", filename="plán č. 1.pdf"
    )
    arrived = received(box, original.as_bytes())
    forward(box, arrived, "Bob <bob@partner.example>", cc=["carol@partner.example"], note="See.")
    drain()
    (mail,) = sent(box)
    assert (mail["Subject"], mail["Cc"]) == ("Fwd: Plán hřiště", "carol@partner.example")
    assert mail["In-Reply-To"] is mail["References"] is None
    body = mail.get_body(("plain",))
    assert body is not None
    assert body.get_content().startswith(
        "See.\n\n---------- Forwarded message ---------\nFrom: Anna"
    )
    (file,) = mail.iter_attachments()
    assert (file.get_filename(), file.get_content()) == ("plán č. 1.pdf", b"%PDF-1")


def test_the_whole_original_can_go_along_as_a_file(box: Mailbox) -> None:
    arrived = received(box, letter("Ceník 2026/27"))
    forward(box, arrived, "bob@partner.example", include_original="attachment", note="Attached.")
    drain()
    (file,) = sent(box)[0].iter_attachments()
    assert file.get_filename() == "Ceník 2026-27.eml"
    assert b"Could you send me the price list" in file.get_content()


@pytest.mark.parametrize(("lost", "times"), [(LOST_ANSWER, 1), (LOST_ANSWER, 3), (LOST_REQUEST, 1)])
@pytest.mark.parametrize("method", ["drafts.create", "drafts.send"])
def test_a_timeout_sends_once(box: Mailbox, method: str, lost: Fault, times: int) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(lost, method=method, times=times)
    assert attempts(outbound)[-1] == "completed"
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


@pytest.mark.parametrize("method", ["messages.list", "getProfile", "drafts.create", "drafts.send"])
@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_what_gmail_refused_for_now_is_tried_again(box: Mailbox, method: str, status: int) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=status), method=method, times=2)
    attempts(outbound)
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


def test_a_mailbox_that_may_send_no_more_today_is_read_and_labelled(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    told = f"{datetime.now(UTC) + timedelta(hours=3):%Y-%m-%dT%H:%M:%S}.000Z (Mail sending)"
    limit = Fault(429, message=f"User-rate limit exceeded.  Retry after {told}")
    box.simulator.order_fault(limit, method="drafts.send")
    drain()
    (job,) = jobs("outbound.send")
    assert (job.attempts, current(outbound).status, sent(box)) == (0, "sending", [])
    assert job.scheduled_at > datetime.now(UTC) + timedelta(hours=2)

    arrived = box.receive(letter("Dovolená", message_id="<two@customer.example>"))
    with firm_scope(box.firm):
        request_sync(box.account)
    drain()
    assert box.message(arrived).subject == "Dovolená"

    with later(seconds=4 * 3600):
        drain()
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


@pytest.mark.parametrize("reason", ["domainPolicy", "insufficientPermissions"])
def test_what_gmail_refuses_for_good_has_failed_and_leaves_no_draft(
    box: Mailbox, reason: str
) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=403, reason=reason), method="drafts.send")
    assert attempts(outbound) == ["dlq"]
    assert (current(outbound).status, sent(box), drafts(box)) == ("failed", [], 0)


def test_a_refusal_after_a_lost_answer_leaves_it_to_a_person(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    attempts(outbound, most=1)
    box.simulator.order_fault(Fault(status=403), method="messages.list")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box))) == ("unknown", 1)


def test_a_refusal_of_what_a_lost_answer_sent_does_not_call_it_failed(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.delay_search(3600)
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    attempts(outbound, most=1)
    box.simulator.order_fault(Fault(status=403, reason="domainPolicy"), method="drafts.send")
    attempts(outbound)
    assert (current(outbound).status, len(sent_by_label(box))) == ("sent", 1)


def test_what_gmail_refused_goes_out_when_a_person_sends_it_again(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=403, reason="domainPolicy"), method="drafts.send")
    attempts(outbound)
    assert current(outbound).status == "failed"
    send_again(current(outbound), reason="The policy was changed")
    assert (current(outbound).status, current(outbound).error) == ("queued", "")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


def test_an_outage_to_the_last_attempt_leaves_it_to_a_person(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send", times=50)
    attempts(outbound)
    done = current(outbound)
    assert (done.status, sent(box), drafts(box)) == ("unknown", [], 1)
    assert "could not say" in done.error


@pytest.mark.parametrize(("begun", "status"), [(False, "failed"), (True, "unknown")])
def test_a_message_whose_job_is_canceled_does_not_wait_for_ever(
    box: Mailbox, begun: bool, status: str
) -> None:
    outbound = answer(box, received(box))
    if begun:
        box.simulator.order_fault(Fault(status=503), method="drafts.send")
        attempts(outbound, most=1)
    assert sweep_actions()["failed"] == 0
    cancel(outbound.job_id)
    assert sweep_actions()["failed"] == 1
    assert (current(outbound).status, sent(box)) == (status, [])
    send_again(current(outbound), reason="A slip")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


def test_after_a_restore_a_mailbox_that_only_suggests_asks_too(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    with firm_scope(box.firm):
        OutboundMessage.objects.update(database_id="another")
        MailAccount.objects.update(mode=Mode.SUGGEST)
    attempts(outbound)
    assert (current(outbound).status, sent(box), drafts(box)) == ("unknown", [], 0)
    assert "restored" in current(outbound).error


def test_after_a_restore_what_was_queued_waits_for_a_yes(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbound = answer(box, received(box))
    for module in (send, outbound_services):
        monkeypatch.setattr(module, "database_identity", lambda: "another")
    attempts(outbound)
    assert (current(outbound).status, sent(box), drafts(box)) == ("unknown", [], 0)
    assert "restored" in current(outbound).error
    send_again(current(outbound), reason="It is not in the sent mail")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)


def test_after_a_restore_what_was_sent_before_is_found(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    attempts(outbound)
    with firm_scope(box.firm):
        # As if the row was restored from before the sending, so that a person has to decide.
        OutboundMessage.objects.update(
            status="unknown", gmail_draft_id="", history_id=None, started_at=None
        )
    send_again(current(outbound), reason="It is not in the sent mail")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)


@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has no identity of a database"
)
def test_a_table_that_came_from_a_dump_is_another(box: Mailbox) -> None:
    before = database_identity()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE mail_outboundmessage RENAME TO dumped")
        cursor.execute("CREATE TABLE mail_outboundmessage (LIKE dumped)")
        assert database_identity() != before
        transaction.set_rollback(True)
    assert database_identity() == before


def test_before_there_is_a_draft_nothing_can_have_gone_out(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.create", times=50)
    attempts(outbound)
    assert current(outbound).status == "failed"


def test_a_search_that_lags_is_no_proof_that_nothing_was_sent(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.delay_search(3600)
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    attempts(outbound)
    assert (current(outbound).status, len(sent_by_label(box))) == ("sent", 1)


def test_a_draft_the_person_discarded_is_left_to_a_person(box: Mailbox, settings: Any) -> None:
    settings.SEND_CHECK_SECONDS = 3600
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    attempts(outbound, most=1)
    box.gmail.delete_draft(current(outbound).gmail_draft_id)
    assert attempts(outbound, most=1) == ["pending"]
    settings.SEND_CHECK_SECONDS = 0
    attempts(outbound)
    assert (current(outbound).status, sent(box)) == ("unknown", [])


def test_a_draft_that_no_search_finds_yet_is_looked_for_on_every_page(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts_of = box.gmail._resources.drafts

    def one_each(gmail: GmailClient, page_token: str | None = None) -> Any:
        page = drafts_of.list(userId="me", pageToken=page_token, maxResults=1)
        return gmail._execute(page)

    monkeypatch.setattr(GmailClient, "list_drafts", one_each)
    outbound = answer(box, received(box))
    box.simulator.delay_search(3600)
    theirs = {box.gmail.create_draft(letter("Written before"))["id"]}
    box.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    attempts(outbound, most=1)
    theirs.add(box.gmail.create_draft(letter("Written afterwards"))["id"])
    attempts(outbound)
    assert (current(outbound).status, len(sent_by_label(box))) == ("sent", 1)
    left = box.gmail._execute(drafts_of.list(userId="me"))["drafts"]
    assert {one["id"] for one in left} == theirs


@pytest.mark.parametrize(("is_ours", "status"), [(True, "sent"), (False, "unknown")])
def test_of_what_was_sent_meanwhile_our_header_tells_which_is_ours(
    box: Mailbox, settings: Any, is_ours: bool, status: str
) -> None:
    """Gmail may replace the Message-ID, and the person may send other mail at the same time."""
    settings.SEND_CHECK_SECONDS = 0
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    attempts(outbound, most=1)
    box.gmail.delete_draft(current(outbound).gmail_draft_id)
    own = {OUTBOUND_HEADER: str(outbound.pk)} if is_ours else {}
    found = box.receive(letter(message_id="<two@customer.example>", **own), labels=["SENT"])
    attempts(outbound)
    done = current(outbound)
    assert (done.status, done.gmail_message_id) == (status, found if is_ours else "")


def test_a_conversation_deleted_meanwhile_gets_its_answer_all_the_same(box: Mailbox) -> None:
    arrived = received(box)
    outbound = answer(box, arrived)
    messages = box.gmail._resources.messages
    box.gmail._execute(messages.delete(userId="me", id=arrived))
    attempts(outbound)
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)


def test_a_message_waits_so_that_it_can_be_canceled(box: Mailbox) -> None:
    arrived = received(box)
    with firm_scope(box.firm):
        MailAccount.objects.update(send_delay_seconds=30)
    outbound = answer(box, arrived)
    assert drain() == []
    with firm_scope(box.firm):
        cancel_outbound(current(outbound), reason="A slip")
    attempts(outbound)
    assert (current(outbound).status, sent(box)) == ("canceled", [])


def test_what_is_being_sent_is_not_canceled(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    attempts(outbound, most=1)
    with pytest.raises(WrongState, match=r"^The message is sending\.$"), firm_scope(box.firm):
        cancel_outbound(current(outbound))
    attempts(outbound)
    assert current(outbound).status == "sent"


def test_what_needs_a_look_is_not_canceled(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    with firm_scope(box.firm):
        OutboundMessage.objects.update(status="unknown")
        with pytest.raises(
            WrongState, match=r"^The message needs a look: nobody can tell whether it was sent\.$"
        ):
            cancel_outbound(current(outbound))


@pytest.mark.parametrize(
    "stop",
    [
        lambda _, outbound: cancel_outbound(outbound),
        lambda box, _: suggest_only(box.account),
    ],
)
def test_what_may_be_sent_is_not_called_canceled_once_it_waits_to_be_sent_again(
    box: Mailbox, stop: Callable[[Mailbox, OutboundMessage], None]
) -> None:
    outbound = answer(box, received(box))
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    attempts(outbound, most=1)
    cancel(current(outbound).job_id)
    sweep_actions()
    send_again(outbound, reason="It did not arrive.")
    assert current(outbound).status == "queued"
    stop(box, current(outbound))
    assert (current(outbound).status, len(sent(box))) == ("unknown", 1)
    # The message's job finds it in the sent mail, and sends nothing.
    attempts(outbound)
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)


@pytest.mark.parametrize(
    "end",
    [
        lambda _, outbound: cancel_outbound(outbound),
        lambda _, outbound: cancel(outbound.job_id),
        lambda box, _: suggest_only(box.account),
        lambda box, _: box.simulator.order_fault(REFUSED, method="drafts.create"),
        lambda box, _: box.simulator.order_fault(REFUSED, method="drafts.send"),
    ],
    ids=["canceled", "job canceled", "suggests only", "no draft", "refused"],
)
@pytest.mark.parametrize("doubt", ["gone", "restored"])
def test_what_may_be_sent_still_needs_a_look_when_sending_it_again_comes_to_nothing(
    box: Mailbox, settings: Any, doubt: str, end: Callable[[Mailbox, OutboundMessage], object]
) -> None:
    settings.SEND_CHECK_SECONDS = 0
    outbound = answer(box, received(box))
    if doubt == "gone":
        box.simulator.order_fault(Fault(status=503), method="drafts.send")
        attempts(outbound, most=1)
        box.gmail.delete_draft(current(outbound).gmail_draft_id)
    else:
        with firm_scope(box.firm):
            OutboundMessage.objects.update(database_id="another")
    attempts(outbound)
    assert current(outbound).status == "unknown"
    send_again(current(outbound), reason="It did not arrive.")
    end(box, current(outbound))
    attempts(outbound)
    sweep_actions()
    done = current(outbound)
    assert (done.status, sent(box), drafts(box)) == ("unknown", [], 0)
    assert done.error
    with firm_scope(box.firm):
        MailAccount.objects.update(mode=Mode.ACTIVE)
    send_again(done, reason="It did not arrive.")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


def test_a_mailbox_that_suggests_only_sends_nothing(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    with firm_scope(box.firm):
        MailAccount.objects.update(mode=Mode.SUGGEST)
    attempts(outbound)
    assert (current(outbound).status, sent(box)) == ("canceled", [])


@pytest.mark.parametrize(("lost", "status"), [(LOST_ANSWER, "sent"), (LOST_REQUEST, "unknown")])
def test_what_may_be_sent_when_the_mailbox_begins_to_suggest_only_is_not_called_canceled(
    box: Mailbox, lost: Fault, status: str
) -> None:
    arrived = received(box)
    with firm_scope(box.firm):
        action = request_action(
            box.message(arrived), ActionType.AUTO_REPLY, {"body": "Gladly."}, needs_approval=False
        )
    (outbound,) = stored(OutboundMessage)
    box.simulator.order_fault(lost, method="drafts.send")
    attempts(outbound, most=1)
    suggest_only(box.reload())
    attempts(outbound)
    assert current(outbound).status == status
    expected = "completed" if status == "sent" else "executing"
    assert only(stored(Action), pk=action.pk).status == expected


def test_an_action_sends_one_message_however_often_it_asks(box: Mailbox) -> None:
    arrived = received(box)
    with firm_scope(box.firm):
        action = Action.objects.create(
            account=box.account, message=box.message(arrived), action_type=ActionType.STAR
        )
    first = answer(box, arrived, action=action)
    again = answer(box, arrived, "Other words", action=action)
    assert first.pk == again.pk
    assert len(jobs("outbound.send")) == 1
    with firm_scope(box.firm):
        Action.objects.update(status="executing")
    attempts(first)
    done = only(stored(Action), pk=action.pk)
    assert done.status == "completed"
    hint = done.undo_hint or {}
    assert (hint["irreversible"], hint["inverse_action"]) == (True, "none")
    assert hint["sent_message_id"] == current(first).gmail_message_id


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"to": "Bob\r\nBcc: all@x.example <bob@x.example>"}, "to"),
        ({"to": "bob@x.example", "subject": "Hello\nBcc: all@x.example"}, "subject"),
        ({"to": "bob@x.example", "cc": "a@x.example\x00"}, "cc"),
        ({"to": "bob@x.example", "bcc": "nobody"}, "bcc"),
        ({"to": ""}, "to"),
    ],
)
def test_what_could_inject_a_header_is_refused_with_its_field(
    box: Mailbox, more: dict[str, str], field: str
) -> None:
    arrived = received(box)
    with pytest.raises(OutboundInvalid) as refused:
        forward(box, arrived, **more)
    assert field in {fault["field"] for fault in refused.value.errors}
    assert stored(OutboundMessage) == []


def test_the_address_a_mail_came_to_answers_it_under_its_name_and_signature(box: Mailbox) -> None:
    box.account.identities = [
        {"address": box.account.address, "name": "Ada", "signature": ""},
        {"address": "sales@acme.example", "name": "Sales Ž", "signature": "<b>Acme</b> s.r.o."},
    ]
    with firm_scope(box.firm):
        box.account.save()
    answer(box, received(box, letter(to="Sales@acme.example")), "Yes.")
    drain()
    (mail,) = sent(box)
    assert mail["From"] == "Sales Ž <sales@acme.example>"
    assert mail.get_content() == "Yes.\n\n-- \nAcme s.r.o.\n"


def sent_by_label(box: Mailbox) -> list[Any]:
    return list(box.gmail.list_messages("", label_id="SENT").get("messages", []))
