"""Messages are stored completely, once and with their threads; the right ones are then judged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.states import Priority
from mail.models import Attachment, EventType, MailEvent, MailThread, Message
from mail.services.syncing.ingest import ingest_message
from tests.mail.mail_kit import OWNER, Mailbox, jobs, letter, stored

pytestmark = pytest.mark.django_db


def ingest(mailbox: Mailbox, gmail_message_id: str) -> dict[str, object]:
    return ingest_message(mailbox.account, mailbox.gmail, gmail_message_id)


@pytest.mark.req("M-06")
def test_a_message_is_stored_as_it_reads(mailbox: Mailbox) -> None:
    at = datetime(2026, 3, 5, 9, 30, tzinfo=UTC)
    raw = letter(
        "Ceník č. 5", "Dobrý den,\nprosím o ceník.", message_id="<a@customer.example>", at=at
    )
    arrived = mailbox.receive(raw)
    result = ingest(mailbox, arrived)
    message = mailbox.message(arrived)
    assert result == {"message_id": str(message.pk), "created": True}
    assert (message.sender_name, message.sender_address) == ("Anna Novak", "anna@customer.example")
    assert message.subject == "Ceník č. 5"
    assert message.text.strip() == "Dobrý den,\nprosím o ceník."
    assert message.text_source == "plain"
    assert message.to == [{"name": "", "address": OWNER}]
    assert message.message_id == "<a@customer.example>"
    assert message.internal_date == at
    assert set(message.labels) == {"INBOX", "UNREAD"}
    assert ["Subject", "Ceník č. 5"] in message.headers
    assert not message.outgoing
    assert message.size > 0


@pytest.mark.req("M-06")
def test_ingesting_again_changes_nothing_and_repeats_no_event(mailbox: Mailbox) -> None:
    arrived = mailbox.receive(with_attachment())
    ingest(mailbox, arrived)
    first = mailbox.message(arrived)
    again = ingest(mailbox, arrived)
    assert again == {"message_id": str(first.pk), "created": False}
    assert len(stored(Message)) == 1
    assert len(stored(Attachment)) == 1
    assert [event.event_type for event in stored(MailEvent)] == [EventType.INGESTED]
    assert mailbox.message(arrived).thread.message_count == 1


def with_attachment() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "anna@customer.example", OWNER, "Drawing"
    mail.set_content("See the drawing.")
    mail.add_attachment(
        b"%PDF-1.4", maintype="application", subtype="pdf", filename="../výkres.pdf"
    )
    return mail.as_bytes()


@pytest.mark.req("M-06")
def test_of_attachments_only_facts_are_stored(mailbox: Mailbox) -> None:
    mailbox.receive(with_attachment())
    mailbox.store_all()
    (attachment,) = stored(Attachment)
    assert attachment.mime_type == "application/pdf"
    assert attachment.filename.endswith("výkres.pdf")
    assert attachment.size == len(b"%PDF-1.4")


@pytest.mark.req("M-06")
def test_a_body_behind_an_attachment_id_is_fetched(mailbox: Mailbox) -> None:
    text = "This line is long enough to be told apart.\n" * 40_000
    arrived = mailbox.receive(letter("Long", text))
    ingest(mailbox, arrived)
    message = mailbox.message(arrived)
    assert message.text_source == "plain"
    assert message.text.startswith("This line is long")


@pytest.mark.req("M-06")
@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252", "utf-8"])
def test_text_that_gmail_gives_in_utf_8_is_read_whatever_its_label(
    mailbox: Mailbox, charset: str
) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "anna@x.example", OWNER, "Réservé"
    message.set_content("Déjà réservé à l'été.", charset=charset)
    arrived = mailbox.receive(message.as_bytes())
    ingest(mailbox, arrived)
    assert mailbox.message(arrived).text.strip() == "Déjà réservé à l'été."


def test_a_message_deleted_meanwhile_is_skipped(mailbox: Mailbox) -> None:
    result = ingest(mailbox, "18c0ffee18c0ffee")
    assert result == {"skipped": True, "reason": "The message is no longer in Gmail"}
    assert stored(Message) == []
    assert jobs() == []


@pytest.mark.req("M-06")
def test_a_draft_is_skipped(mailbox: Mailbox) -> None:
    result = ingest(mailbox, mailbox.receive(labels=("DRAFT",)))
    assert result == {"skipped": True, "reason": "The message is a draft"}
    assert stored(Message) == []


@pytest.mark.req("M-06")
def test_a_thread_counts_its_messages_whatever_order_they_come_in(mailbox: Mailbox) -> None:
    at = datetime(2026, 3, 5, 9, 30, tzinfo=UTC)
    first = mailbox.receive(letter("Price", message_id="<1@x.example>", at=at))
    answer = letter(
        "Re: Price", message_id="<2@x.example>", reply_to_id="<1@x.example>", at=at + timedelta(1)
    )
    second = mailbox.receive(answer)
    ingest(mailbox, second)
    ingest(mailbox, first)
    (thread,) = stored(MailThread)
    assert thread.message_count == 2
    assert thread.last_message_at == at + timedelta(1)
    assert thread.subject == "Re: Price"
    assert thread.status == "pending"
    assert thread.classification == ""


@pytest.mark.req("M-06", "M-09")
def test_inbox_mail_and_the_owners_answers_are_to_be_judged(mailbox: Mailbox) -> None:
    received = mailbox.receive()
    sent = mailbox.receive(letter("Ours", sender=OWNER), labels=("SENT",))
    mailbox.receive(letter("Archived by a filter"), labels=("UNREAD",))
    mailbox.store_all()
    judged = {job.payload["message_id"] for job in jobs("classify")}
    assert judged == {str(mailbox.message(arrived).pk) for arrived in (received, sent)}
    job = jobs("classify")[0]
    assert job.priority == Priority.NORMAL
    assert job.lock_key == f"gmail-thread:{job.payload['thread_id']}"


@pytest.mark.req("M-06")
def test_what_the_owner_wrote_is_outgoing_wherever_it_lies(mailbox: Mailbox) -> None:
    alias = mailbox.receive(letter("As an alias", sender="info@acme.example"), labels=("SENT",))
    other = mailbox.receive(letter("From another folder", sender="Owner <OWNER@acme.example>"))
    mailbox.store_all()
    assert mailbox.message(alias).outgoing
    assert mailbox.message(other).outgoing


@pytest.mark.req("M-06")
def test_a_form_that_writes_under_the_owners_address_is_somebody_elses(mailbox: Mailbox) -> None:
    form = mailbox.receive(letter("Inquiry", sender=OWNER, Reply_To="vera@visitor.example"))
    own = mailbox.receive(letter("To myself", sender=OWNER, Reply_To=OWNER))
    sent = letter("Sent", sender=OWNER, Reply_To="office@acme.example")
    sent_id = mailbox.receive(sent, labels=("SENT",))
    mailbox.store_all()
    assert [mailbox.message(one).outgoing for one in (form, own, sent_id)] == [False, True, True]


@pytest.mark.req("M-06")
@pytest.mark.parametrize(("result", "outgoing"), [("fail", False), ("pass", True)])
def test_who_forges_the_owners_address_is_not_the_owner(
    mailbox: Mailbox, result: str, outgoing: bool
) -> None:
    results = f"mx.google.com; dmarc={result} header.from=acme.example"
    arrived = mailbox.receive(letter("Re: Question", sender=OWNER, Authentication_Results=results))
    mailbox.store_all()
    assert mailbox.message(arrived).outgoing is outgoing


@pytest.mark.req("J-03", "M-06")
def test_payloads_and_events_carry_no_mail_text(mailbox: Mailbox) -> None:
    mailbox.receive(letter("Zebra subject", "Zebra text", sender="zebra@customer.example"))
    mailbox.store_all()
    kept = [str(job.payload) for job in jobs()] + [str(event.detail) for event in stored(MailEvent)]
    assert kept
    assert not any("zebra" in text.lower() for text in kept)


@pytest.mark.req("M-06")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(min_size=1, max_size=400))
def test_any_bytes_can_be_stored(mailbox: Mailbox, raw: bytes) -> None:
    arrived = mailbox.receive(raw)
    assert "message_id" in ingest(mailbox, arrived)
    assert mailbox.message(arrived).thread.message_count >= 1


@pytest.mark.req("M-06")
def test_overlong_and_unstorable_values_are_cut_to_fit(mailbox: Mailbox) -> None:
    raw = (
        b"From: " + b"a" * 900 + b"@x.example\r\n"
        b"Subject: =?utf-8?q?NUL=00_here?=\r\n"
        b"Content-Type: text/calendar; method=" + b"R" * 300 + b"\r\n\r\nBEGIN:VCALENDAR\x00\r\n"
    )
    arrived = mailbox.receive(raw)
    ingest(mailbox, arrived)
    message = mailbox.message(arrived)
    assert len(message.sender_address) <= 320
    assert len(message.calendar_method) <= 40
    assert "\x00" not in message.subject + message.text
