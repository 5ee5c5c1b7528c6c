"""Selects the attachments to be read, and does each step of a document's way into search.

A document goes from waiting to fetched, scanned and read. Each step is a job, which does nothing if
the document has left the state that the step begins in. Its bytes are kept until the last step.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from jobs.states import Priority
from mail.conf import attachment_max_bytes, reads_attachments
from mail.documents.extract import Extraction
from mail.documents.kinds import Unread, Unreadable, kind_of
from mail.errors import RowGone
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
from mail.models import (
    MAX_DETECTED_LENGTH,
    MAX_MALWARE_LENGTH,
    Attachment,
    Document,
    DocumentStatus,
    MailAccount,
    Message,
    ScanResult,
)
from mail.services.documents.search import index_some
from mail.services.exports.suppression import Suppression
from mail.services.mailboxes.accounts import in_firm_scope
from mail.services.mailboxes.change import change_mailbox
from mail.text.parts import leaves
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

FETCH_TYPE, SCAN_TYPE, EXTRACT_TYPE = "attachment.fetch", "malware_scan", "text_extract"
# Each document costs three jobs, two requests to Gmail and a process, and a mail may have thousands
# of attachments.
MOST_OF_A_MESSAGE = 100


def reads_attachments_of(account: MailAccount) -> bool:
    """Say whether attachments of the mailbox are fetched and read."""
    return account.read_attachments and reads_attachments()


@in_firm_scope
def set_reading(account: MailAccount, *, read: bool, reason: str = "", by: Actor = SERVICE) -> None:
    """Switch the reading of new mail's attachments; off, those that wait are not fetched either.

    With READ_ATTACHMENTS off, none is read in any case.
    """
    change_mailbox(account, "mailbox.read_attachments", by=by, reason=reason, read_attachments=read)


def request_documents(account: MailAccount, messages: Sequence[Message]) -> None:
    """Have the readable attachments of new messages read, the first hundred of each message.

    Must run in the firm's scope.
    """
    if not messages or not reads_attachments_of(account):
        return
    ids = [message.pk for message in messages]
    attachments = Attachment.objects.filter(message_id__in=ids).order_by("pk")
    documents, of_message = [], Counter[UUID]()
    for attachment in attachments:
        if kind_of(attachment.filename, attachment.mime_type) is None:
            continue
        of_message[attachment.message_id] += 1
        if of_message[attachment.message_id] <= MOST_OF_A_MESSAGE:
            documents.append(_new_document(account, attachment))
    Document.objects.bulk_create(documents)
    waiting = [one for one in documents if one.status == DocumentStatus.WAITING]
    specs = [EnqueueSpec(FETCH_TYPE, _payload(one), priority=Priority.LOW) for one in waiting]
    for document, result in zip(waiting, enqueue_many(specs), strict=True):
        document.job_id = result.job_id
    Document.objects.bulk_update(waiting, ["job_id"])


def _new_document(account: MailAccount, attachment: Attachment) -> Document:
    document = Document(account=account, message_id=attachment.message_id, attachment=attachment)
    if attachment.size > attachment_max_bytes():
        document.status, document.reason = DocumentStatus.SKIPPED, Unread.TOO_LARGE
    return document


def _payload(document: Document) -> dict[str, Any]:
    return {
        "account_id": document.account_id,
        "message_id": document.message_id,
        "document_id": document.pk,
    }


def document_in(firm_id: int, document_id: UUID, status: DocumentStatus) -> Document | None:
    """Return the document with message, attachment and bytes; None if it has left this state.

    Raises:
        RowGone: the document was deleted with its message.
    """
    with firm_scope(firm_id):
        rows = Document.objects.select_related("message", "attachment").defer("text")
        document: Document | None = rows.filter(pk=document_id).first()
    if document is None:
        raise RowGone(f"document {document_id} is gone")
    return document if document.status == status else None


def fetch_content(account: MailAccount, gmail: GmailClient, document: Document) -> bytes:
    """Return the attachment's bytes; Gmail's id of it is read anew, because it does not last.

    Raises:
        Unreadable: it is gone, too large, or attachments are not read any more.
    """
    if not reads_attachments_of(account):
        raise Unreadable(Unread.SWITCHED_OFF)
    most, gmail_id = attachment_max_bytes(), document.message.gmail_message_id
    try:
        payload = gmail.get_message(gmail_id).get("payload")
        parts = (part for part in leaves(payload) if part.part_id == document.attachment.part_id)
        part = next(parts, None)
        if part is None:
            raise Unreadable(Unread.GONE)
        if part.meta().size > most:
            raise Unreadable(Unread.TOO_LARGE)
        content = part.content(lambda gmail_part_id: gmail.get_attachment(gmail_id, gmail_part_id))
    except GmailNotFound as error:
        raise Unreadable(Unread.GONE) from error
    if len(content) > most:
        raise Unreadable(Unread.TOO_LARGE)
    return content


def keep_content(document: Document, content: bytes) -> dict[str, Any]:
    """Store the bytes and have them scanned. Must run in the firm's scope, as the steps below."""
    return _go_on(
        document,
        DocumentStatus.WAITING,
        SCAN_TYPE,
        status=DocumentStatus.FETCHED,
        content=content,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        fetched_at=Now(),
    )


def keep_verdict(document: Document, scan: ScanResult, malware: str = "") -> dict[str, Any]:
    """Store the scanner's verdict, and have a file that is not infected read."""
    verdict = {"scan": scan, "malware": malware[:MAX_MALWARE_LENGTH], "scanned_at": Now()}
    if scan == ScanResult.INFECTED:
        return end_document(document, Unread.INFECTED, status=DocumentStatus.INFECTED, **verdict)
    return _go_on(
        document, DocumentStatus.FETCHED, EXTRACT_TYPE, status=DocumentStatus.SCANNED, **verdict
    )


def keep_text(document: Document, extraction: Extraction) -> dict[str, Any]:
    """Store the attachment's text, by which search then finds its message."""
    # An erasure locks the mailbox, too: text that is stored after it asks the suppression list
    # here.
    MailAccount.objects.select_for_update(no_key=True).get(pk=document.account_id)
    detected = extraction.detected_type[:MAX_DETECTED_LENGTH]
    if not extraction.text:
        return end_document(document, Unread(extraction.reason), detected_type=detected)
    if Suppression(document.firm_id).names_erased([extraction.text]):
        return end_document(document, Unread.ERASED, detected_type=detected)
    result = end_document(
        document,
        Unread(extraction.reason) if extraction.reason else None,
        status=DocumentStatus.READ,
        text=extraction.text,
        detected_type=detected,
    )
    index_some(document.firm_id, [document.message_id])
    return result


def fetch_again(document: Document) -> dict[str, Any]:
    """Have the document's bytes fetched again, because they were dropped."""
    return _go_on(document, document.status, FETCH_TYPE, status=DocumentStatus.WAITING)


def end_document(document: Document, reason: Unread | None, **changes: Any) -> dict[str, Any]:
    """Store how the document ended, and drop its bytes."""
    changes = {"status": DocumentStatus.UNREADABLE, **changes}
    code = reason.value if reason is not None else ""
    if not _change(document, document.status, content=None, reason=code, ended_at=Now(), **changes):
        return _overtaken(document)
    return {"document_id": str(document.pk), "status": changes["status"].value, "reason": code}


def forget(documents: Sequence[Document]) -> None:
    """Drop what these documents say, as they mention an erased person. Must run in a scope."""
    Document.objects.filter(pk__in=[one.pk for one in documents]).update(
        status=DocumentStatus.UNREADABLE, reason=Unread.ERASED, text="", content=None, malware=""
    )
    for firm_id in {one.firm_id for one in documents}:
        index_some(firm_id, [one.message_id for one in documents if one.firm_id == firm_id])


def drop_contents(firm_id: int) -> None:
    """Drop the bytes of the firm's documents, because bytes cannot be searched for a person."""
    Document.objects.filter(firm_id=firm_id, content__isnull=False).update(content=None)


def _go_on(
    document: Document, before: DocumentStatus | str, job_type: str, **changes: Any
) -> dict[str, Any]:
    """Store a step and enqueue the next one."""
    if not _change(document, before, **changes):
        return _overtaken(document)
    result = enqueue(job_type, _payload(document), priority=Priority.LOW)
    Document.objects.filter(pk=document.pk).update(job_id=result.job_id)
    return {"document_id": str(document.pk), "status": changes["status"].value}


def _change(document: Document, before: DocumentStatus | str, **changes: Any) -> bool:
    return bool(Document.objects.filter(pk=document.pk, status=before).update(**changes))


def _overtaken(document: Document) -> dict[str, Any]:
    return {"skipped": True, "reason": f"Document {document.pk} has left the state it was in"}
