"""Documents over REST and in the admin: the firm sees that they exist, readers see their text."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.queue import cancel, retry
from mail.models import Document, MailAccount
from tenants.models import Role
from tenants.scope import firm_scope
from tests.jobs.api.conftest import key_for
from tests.mail.admin.test_pages import member_of
from tests.mail.document_kit import pdf, with_attachments
from tests.mail.mail_kit import Mailbox, drain, jobs, only, stored, without_drafts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-06", "M-23")]

NAME, SAYS = "prices-of-spring.pdf", "aubergine"
ROOT = "/api/v1/mail/documents/"


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox with a message, of whose attachments one was read and others were not."""
    without_drafts(mailbox)
    read = pdf(f"BT /F1 12 Tf ({SAYS}) Tj ET".encode())
    mailbox.receive(with_attachments((NAME, read), ("cut.pdf", read[:150]), ("a.exe", b"MZ")))
    mailbox.store_all()
    drain()
    return mailbox


def make_private(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)


def test_they_are_listed_by_status_and_shown_to_readers(box: Mailbox) -> None:
    headers = {"Authorization": f"Bearer {key_for(box.firm, Role.VIEWER)}"}

    def get(path: str = "", **query: Any) -> Any:
        answer = Client().get(ROOT + path, query, headers=headers)
        assert answer.status_code == 200
        return answer.json()

    (row,) = get(status="read")["results"]
    shown = get(f"{row['id']}/")
    assert row.items() <= shown.items()
    assert (row["filename"], row["detected_type"], row["scan"]) == (NAME, "pdf", "not_scanned")
    assert (shown["text"], "text" in row, "content" in shown) == (SAYS, False, False)
    (cut,) = get(status="unreadable", message_id=row["message_id"])["results"]
    assert (cut["reason"], cut["reason_text"]) == ("damaged", "It is damaged")
    assert len(shown["sha256"]) == 64
    with firm_scope(box.firm):
        Document.objects.update(malware="Eicar-Test")
    assert get(f"{row['id']}/")["malware"] == "Eicar-Test"
    make_private(box)
    hidden = get(f"{row['id']}/")
    assert (hidden["text"], hidden["filename"], hidden["status"]) == (None, None, "read")
    assert (hidden["sha256"], hidden["malware"]) == (None, None)
    assert get(status="read")["results"] == [{k: v for k, v in hidden.items() if k != "text"}]


def test_the_pages_say_how_far_each_is(box: Mailbox) -> None:
    client = member_of(box.firm)
    read = only(stored(Document), status="read")
    found = "Eicar-Test"
    with firm_scope(box.firm):
        Document.objects.update(malware=found)

    def pages() -> list[str]:
        addresses = [
            reverse("admin:mail_document_change", args=[read.pk]),
            reverse("admin:mail_document_changelist"),
            reverse("admin:mail_message_change", args=[read.message_id]),
        ]
        return [client.get(address).content.decode() for address in addresses]

    page, listed, message = pages()
    assert SAYS in page
    assert all(NAME in one for one in (page, listed, message))
    assert all("It is damaged" in one for one in (listed, message))
    assert reverse("admin:mail_document_change", args=[read.pk]) in message
    assert "Not read" in message
    assert read.sha256 in page
    assert found in page
    make_private(box)
    secrets = (NAME, SAYS, read.sha256, found)
    assert not any(secret in one for one in pages() for secret in secrets)


@pytest.mark.parametrize(
    ("end", "reason", "text"),
    [
        ("cancel", "job_canceled", "Its job was canceled"),
        ("delete", "job_gone", "Its job is over"),
        ("", None, ""),
    ],
)
def test_what_waits_for_a_job_that_is_over_says_so(
    mailbox: Mailbox, end: str, reason: str | None, text: str
) -> None:
    without_drafts(mailbox)
    mailbox.receive(with_attachments((NAME, pdf(b"BT ET"))))
    mailbox.store_all()
    (job,) = jobs("attachment.fetch")
    if end:
        cancel(job)
    if end == "delete":
        with firm_scope(mailbox.firm):
            job.delete()
    (document,) = stored(Document)
    headers = {"Authorization": f"Bearer {key_for(mailbox.firm, Role.VIEWER)}"}
    shown = Client().get(f"{ROOT}{document.pk}/", headers=headers).json()
    assert (shown["status"], shown["reason"]) == ("waiting", reason)
    assert text in (shown["reason_text"] or "")
    client = member_of(mailbox.firm)
    for address in (
        reverse("admin:mail_document_change", args=[document.pk]),
        reverse("admin:mail_document_changelist"),
        reverse("admin:mail_message_change", args=[document.message_id]),
    ):
        page = client.get(address).content.decode()
        assert ("Its job" in page) == bool(text)
        assert text in page


def test_a_canceled_job_that_is_retried_goes_on_with_its_document(mailbox: Mailbox) -> None:
    without_drafts(mailbox)
    mailbox.receive(with_attachments((NAME, pdf(f"BT /F1 12 Tf ({SAYS}) Tj ET".encode()))))
    mailbox.store_all()
    (job,) = jobs("attachment.fetch")
    cancel(job)
    retry(job)
    drain()
    assert only(stored(Document), status="read").text == SAYS
