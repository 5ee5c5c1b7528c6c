"""A forwarded message has each file once, with the bytes that the sender attached."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import pytest

from mail.gmail.mime import NAMELESS
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.models import Attachment, OutboundMessage
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, stored
from tests.mail.send_kit import at_once, attempts, current, drafts, forward, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18")]

PDF = b"%PDF-1.4\n%%EOF\n"
TO = "boss@acme.example"


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def headed(subject: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"] = "Anna <anna@customer.example>", "owner@acme.example"
    mail["Subject"] = subject
    return mail


def one_file(mime_type: str, filename: str, content: bytes = PDF) -> bytes:
    """Return a mail that is nothing but a file, as scanners, faxes and S/MIME send it."""
    mail = headed("Scan")
    maintype, _, subtype = mime_type.partition("/")
    mail.set_content(
        content, maintype=maintype, subtype=subtype, disposition="attachment", filename=filename
    )
    return mail.as_bytes()


def with_a_mail_inside() -> bytes:
    inner = headed("Inner")
    inner.set_content("inner text")
    inner.add_attachment(PDF, maintype="application", subtype="pdf", filename="inner.pdf")
    mail = headed("Outer")
    mail.set_content("outer text")
    mail.add_attachment(inner, filename="inner.eml")
    mail.add_attachment(b"\x00\x01", maintype="application", subtype="zip", filename="outer.zip")
    return mail.as_bytes()


def stored_mail(box: Mailbox, raw: bytes) -> str:
    arrived = box.receive(raw)
    box.store_all()
    return arrived


def files(box: Mailbox) -> list[tuple[str | None, bytes]]:
    """Return the names and bytes of the sent message's attachments."""
    (mail,) = sent(box)
    return [
        (part.get_filename(), part.get_payload(decode=True))  # type: ignore[misc]  # bytes
        for part in mail.iter_attachments()
    ]


@pytest.mark.parametrize(
    ("mime_type", "filename"),
    [("application/pdf", "scan.pdf"), ("application/pkcs7-mime", "smime.p7m")],
)
def test_a_mail_that_is_one_file_is_forwarded_as_that_file(
    box: Mailbox, mime_type: str, filename: str
) -> None:
    outbound = forward(box, stored_mail(box, one_file(mime_type, filename)), TO)
    assert attempts(outbound) == ["completed"]
    assert files(box) == [(filename, PDF)]


@pytest.mark.parametrize("filename", ["scan.pdf", ""])
def test_a_draft_whose_answer_was_lost_is_found_again_with_its_files(
    box: Mailbox, filename: str
) -> None:
    outbound = forward(box, stored_mail(box, one_file("application/pdf", filename)), TO)
    box.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    attempts(outbound)
    assert files(box) == [(filename or NAMELESS, PDF)]
    assert drafts(box) == 0


def test_a_mail_that_is_one_file_can_go_along_whole(box: Mailbox) -> None:
    raw = one_file("application/pdf", "scan.pdf")
    attempts(forward(box, stored_mail(box, raw), TO, include_original="attachment"))
    ((name, content),) = files(box)
    assert name == "Scan.eml"
    assert b"Subject: Scan" in content


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_mails_each_is_forwarded_with_its_own_file(box: Mailbox, number: int) -> None:
    contents = [b"first", b"second"]
    arrived = [stored_mail(box, one_file("application/pdf", "a.pdf", one)) for one in contents]
    attempts(forward(box, arrived[number], TO))
    assert files(box) == [("a.pdf", contents[number])]


def test_a_file_of_no_valid_type_is_forwarded_as_bytes(box: Mailbox) -> None:
    arrived = stored_mail(box, one_file("application/pdf", "scan.pdf"))
    with firm_scope(box.firm):
        Attachment.objects.update(mime_type="application/pdf; name=a b")
    attempts(forward(box, arrived, TO))
    ((_, content),) = files(box)
    assert content == PDF
    (file,) = sent(box)[0].iter_attachments()
    assert file.get_content_type() == "application/octet-stream"


def test_what_was_asked_for_before_the_update_is_sent_rightly(box: Mailbox) -> None:
    arrived = stored_mail(box, one_file("application/pdf", "scan.pdf"))
    outbound = forward(box, arrived, TO)
    (file,) = outbound.attachments
    with firm_scope(box.firm):
        # An earlier version stored an empty part id for the body, which now means the whole
        # message.
        OutboundMessage.objects.update(attachments=[{**file, "part_id": ""}])
    attempts(outbound)
    assert files(box) == [("scan.pdf", PDF)]


def test_an_attached_mail_takes_its_own_files_along_once(box: Mailbox) -> None:
    attempts(forward(box, stored_mail(box, with_a_mail_inside()), TO))
    assert [name for name, _ in files(box)] == ["inner.eml", "outer.zip"]
    assert b"inner.pdf" in files(box)[0][1]


def test_the_files_of_an_attached_mail_count_once(box: Mailbox, monkeypatch: Any) -> None:
    arrived = stored_mail(box, with_a_mail_inside())
    sizes = {one.filename: one.size for one in stored(Attachment)}
    most = sizes["inner.eml"] + sizes["outer.zip"]
    monkeypatch.setattr("mail.services.sending.outbound.MAX_ATTACHMENT_BYTES", most)
    outbound = forward(box, arrived, TO)
    attempts(outbound)
    assert current(outbound).status == "sent"
