"""Attachments go from Gmail into search, step by step; each document ends with a named status."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from django.db.models import Q
from django.test import override_settings
from pytest_django import Settings

from jobs.engine.outcomes import Completed, Snoozed
from jobs.errors import Retryable
from jobs.queue import enqueue
from jobs.testing import assert_idempotent, run_job
from mail.documents import extract
from mail.job_handlers.base import KEY_SECONDS
from mail.job_handlers.documents import INTERRUPTED
from mail.models import Connection, Document, MailAccount, Message, RequestKind
from mail.services.documents import documents
from mail.services.documents.documents import set_reading
from mail.services.documents.search import find_messages
from mail.services.exports.requests import request_data
from mail.services.exports.suppression import suppress
from mail.services.mailboxes.accounts import open_account
from tenants.audit import SERVICE
from tenants.key_ring import new_key
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.mail.document_kit import (
    WORD,
    clamd,
    docx,
    eicar,
    encrypted_pdf,
    open_document,
    pdf,
    with_attachments,
)
from tests.mail.mail_kit import Mailbox, drain, drain_later, jobs, only, stored, without_drafts
from tests.queue_kit import later
from tests.support.ports import reserved_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-06")]

STEPS = ["attachment.fetch", "malware_scan", "text_extract"]


def receive(mailbox: Mailbox, *files: tuple[str, bytes]) -> list[Document]:
    """Let a message with these files arrive, and store it."""
    without_drafts(mailbox)
    mailbox.receive(with_attachments(*files))
    mailbox.store_all()
    return stored(Document)


def ended(mailbox: Mailbox, name: str, content: bytes) -> tuple[str, str, str]:
    """Return how the document ends: status, reason and scan; check that its bytes are gone."""
    receive(mailbox, (name, content))
    drain()
    (document,) = stored(Document)
    assert document.content is None
    return document.status, document.reason, document.scan


def found(firm: Firm, text: str = WORD) -> int:
    with firm_scope(firm):
        return len(find_messages(text, Q()))


def test_of_a_mail_with_very_many_attachments_the_first_hundred_are_read(
    mailbox: Mailbox,
) -> None:
    files = [(f"{number}.txt", b"parsnip") for number in range(documents.MOST_OF_A_MESSAGE + 5)]
    found = receive(mailbox, ("setup.exe", b"MZ"), *files)
    with firm_scope(mailbox.firm):
        names = {one.attachment.filename for one in found}
    assert names == {name for name, _ in files[: documents.MOST_OF_A_MESSAGE]}
    assert len(jobs("attachment.fetch")) == documents.MOST_OF_A_MESSAGE


def test_search_finds_a_word_of_an_attachment(mailbox: Mailbox) -> None:
    content = pdf()
    receive(mailbox, ("prices.pdf", content), ("setup.exe", b"MZ"), ("more.docx", docx("turnip")))
    assert found(mailbox.firm) == 0
    drain()
    assert (found(mailbox.firm), found(mailbox.firm, "turnip see")) == (1, 1)
    first, second = sorted(stored(Document), key=lambda one: one.detected_type, reverse=True)
    assert (first.text, first.detected_type, first.size) == (WORD, "pdf", len(content))
    assert (first.status, first.reason, first.scan) == ("read", "", "not_scanned")
    assert (first.content, len(first.sha256)) == (None, 64)
    assert first.fetched_at <= first.scanned_at <= first.ended_at
    assert second.text == "turnip"
    assert [len(jobs(one, live=False)) for one in STEPS] == [2, 2, 2]
    # The document is still found after its message is indexed again.
    with firm_scope(mailbox.firm):
        enqueue("message.index", {"message_ids": [stored(Message)[0].pk]})
    drain()
    assert found(mailbox.firm) == 1


ENDS: dict[str, tuple[str, bytes, tuple[str, str]]] = {
    "program": ("a.pdf", b"MZ" + bytes(99), ("unreadable", "wrong_type")),
    "encrypted": ("a.pdf", encrypted_pdf("secret"), ("unreadable", "encrypted")),
    "damaged": ("a.docx", docx()[:1000], ("unreadable", "damaged")),
    "empty": ("a.txt", b" ", ("unreadable", "no_text")),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_cannot_be_read_ends_with_a_reason(mailbox: Mailbox, name: str) -> None:
    filename, content, end = ENDS[name]
    assert ended(mailbox, filename, content) == (*end, "not_scanned")
    assert {job.status for job in jobs(live=False) if job.job_type in STEPS} == {"completed"}
    assert found(mailbox.firm, "files") == 1


def test_what_is_too_large_is_not_fetched(mailbox: Mailbox, settings: Settings) -> None:
    settings.ATTACHMENT_MAX_MB = 0
    assert ended(mailbox, "a.pdf", pdf()) == ("skipped", "too_large", "")
    assert jobs("attachment.fetch", live=False) == []


def test_switched_off_nothing_is_fetched(mailbox: Mailbox, settings: Settings) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    settings.READ_ATTACHMENTS = False
    with patch.object(type(mailbox.gmail), "get_attachment", side_effect=AssertionError):
        drain()
    assert only(stored(Document)).reason == "switched_off"
    mailbox.receive(with_attachments(("b.pdf", pdf()), text="Another one"))
    mailbox.store_all()
    assert len(stored(Document)) == 1


def test_a_mailbox_has_a_switch_of_its_own(mailbox: Mailbox, other_firm: Firm) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    set_reading(mailbox.account, read=False, reason="confidential")
    with patch.object(type(mailbox.gmail), "get_attachment", side_effect=AssertionError):
        drain()
    assert only(stored(Document)).reason == "switched_off"
    mailbox.receive(with_attachments(("b.pdf", pdf()), text="Another one"))
    mailbox.store_all()
    assert len(stored(Document)) == 1

    other = Mailbox(other_firm, open_account(other_firm, "ben@globex.example"), mailbox.simulator)
    other.receive(with_attachments(("c.pdf", pdf())))
    other.store_all()
    drain()
    assert only(stored(Document), firm_id=other_firm.pk).status == "read"
    set_reading(mailbox.account, read=True)
    mailbox.receive(with_attachments(("d.odt", open_document()), text="A third"))
    mailbox.store_all()
    drain()
    assert only(stored(Document), detected_type="odt").status == "read"


def test_a_message_that_is_gone_is_said_to_be(mailbox: Mailbox) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    gmail_id = only(mailbox.messages()).gmail_message_id
    mailbox.gmail._execute(mailbox.gmail._resources.messages.delete(userId="me", id=gmail_id))
    drain()
    assert only(stored(Document)).reason == "gone"


@pytest.mark.parametrize(
    "closed", [{"active": False}, {"connection": Connection.DISCONNECTED}], ids=str
)
def test_what_waits_when_its_mailbox_is_closed_ends_with_the_reason(
    mailbox: Mailbox, closed: dict[str, Any]
) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    with firm_scope(mailbox.firm):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(**closed)
    drain()
    (document,) = stored(Document)
    assert (document.status, document.reason) == ("skipped", "disconnected")
    assert document.ended_at is not None
    assert only(jobs("attachment.fetch", live=False)).status == "completed"
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(active=True, connection=Connection.CONNECTED)
        mailbox.receive(with_attachments(("b.pdf", pdf()), text="Another one"))
    mailbox.store_all()
    drain()
    assert only(stored(Document), reason="").status == "read"


def test_what_was_deleted_with_its_mailbox_is_canceled(mailbox: Mailbox) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(active=False)
        Document.objects.all().delete()
    drain()
    assert only(jobs("attachment.fetch", live=False)).status == "canceled"


def test_malware_is_found_and_not_read(mailbox: Mailbox, settings: Settings) -> None:
    with clamd() as server:
        settings.CLAMD_URL = server.url
        assert ended(mailbox, "a.txt", eicar()) == ("infected", "infected", "infected")
        assert jobs("text_extract", live=False) == []
        assert only(stored(Document)).malware == "Eicar-Test-Signature"
        mailbox.receive(with_attachments(("b.pdf", pdf()), text="Clean"))
        mailbox.store_all()
        drain()
    clean = only(stored(Document), scan="clean")
    assert (clean.status, clean.text) == ("read", WORD)


def test_without_its_scanner_nothing_is_read(mailbox: Mailbox, settings: Settings) -> None:
    with reserved_port() as port:
        settings.CLAMD_URL = f"tcp://127.0.0.1:{port}"
        receive(mailbox, ("a.pdf", pdf()))
        drain()
    (job,) = jobs("malware_scan")
    assert job.status == "pending"
    assert "clamd is not to be had" in job.last_error
    assert only(stored(Document)).status == "fetched"


@pytest.mark.parametrize("step", STEPS)
def test_each_step_may_run_twice(mailbox: Mailbox, step: str) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    for before in STEPS[: STEPS.index(step)]:
        run_job(only(jobs(before)))
    assert_idempotent(only(jobs(step)), firm=mailbox.firm)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_before_a_step_is_stored_leaves_one_document(mailbox: Mailbox, step: str) -> None:
    """A step commits its result, its job's end and the next job in one transaction."""
    receive(mailbox, ("a.pdf", pdf()))
    for before in STEPS[: STEPS.index(step)]:
        run_job(only(jobs(before)))
    status = only(stored(Document)).status
    last_call = "_go_on" if step != STEPS[-1] else "index_some"
    with patch.multiple(documents, **{last_call: _raising(Retryable("killed"))}):
        run_job(only(jobs(step)))
    assert only(stored(Document)).status == status
    drain_later()
    assert (only(stored(Document)).status, found(mailbox.firm)) == ("read", 1)


KILLED = "import os; os.kill(os.getpid(), 9)"


def test_one_whose_reader_is_killed_from_outside_is_read_another_time(mailbox: Mailbox) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    with patch.object(extract, "START", KILLED):
        drain()
    assert only(stored(Document)).status == "scanned"
    (job,) = jobs("text_extract")
    assert INTERRUPTED in job.last_error
    drain_later()
    assert (only(stored(Document)).status, found(mailbox.firm)) == ("read", 1)


def test_one_whose_reader_is_killed_each_time_ends_with_the_reason(mailbox: Mailbox) -> None:
    receive(mailbox, ("a.pdf", pdf()))
    with patch.object(extract, "START", KILLED):
        drain_later(3)
    (document,) = stored(Document)
    assert (document.status, document.reason) == ("unreadable", "memory")
    assert jobs("text_extract") == []


def _raising(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.req("U-05")
def test_an_erased_person_leaves_no_trace_in_attachments(mailbox: Mailbox) -> None:
    says = b"kohlrabi for eva@x.example"
    receive(mailbox, ("a.txt", says))
    drain()
    assert found(mailbox.firm, "eva") == 1
    mailbox.receive(with_attachments(("b.txt", says), text="On its way"))
    mailbox.store_all()
    run_job(only(jobs("attachment.fetch")))
    waiting = only(stored(Document), status="fetched")
    request_data(
        mailbox.firm, RequestKind.ERASE_SUBJECT, subject="eva@x.example", reason="asked", by=SERVICE
    )
    run_job(only(jobs("erase_subject")))
    # The text of the bytes is not known yet, so the erasure deletes them, and they are fetched
    # again.
    assert only(stored(Document), pk=waiting.pk).content is None
    drain()
    assert [(one.reason, one.text, one.content) for one in stored(Document)] == [
        ("erased", "", None)
    ] * 2
    assert (found(mailbox.firm, "eva"), found(mailbox.firm, "kohlrabi")) == (0, 0)
    assert found(mailbox.firm, "files") == 2


def test_while_a_worker_lacks_the_suppression_lists_key_attachments_wait(
    mailbox: Mailbox,
) -> None:
    receive(mailbox, ("a.txt", WORD.encode()))
    with firm_scope(mailbox.firm):
        suppress(mailbox.firm.pk, "eva@x.example")
    with override_settings(FIELD_ENCRYPTION_KEYS=[new_key()]):
        assert {type(one) for one in drain()} == {Completed, Snoozed}
    assert only(jobs("text_extract")).attempts == 0
    with later(KEY_SECONDS):
        drain()
    assert only(stored(Document)).status == "read"
