"""`attachment.fetch`, `malware_scan`, `text_extract`, `message.index`: let search find mail."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from jobs.errors import Cancel, Retryable
from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import clamd_url, document_limits
from mail.documents import clamd
from mail.documents.extract import extract_text
from mail.documents.kinds import Unread, Unreadable, kind_of
from mail.errors import MailboxDisconnected, MailboxInactive, RowGone
from mail.gmail import units
from mail.job_handlers.base import (
    GMAIL_BREAKER,
    GMAIL_RETRY,
    AccountPayload,
    mailbox,
    mailbox_key,
    waiting_for_keys,
)
from mail.models import Document, DocumentStatus, ScanResult
from mail.services.documents import documents
from mail.services.documents.search import UNINDEXED, index_missing, index_some
from mail.services.queueing import PAGE

SWEEP_SECONDS = 3600
INTERRUPTED = "The process that reads was killed from outside, or got no processor time"
# The retries wait long, because a restarted scanner loads its signatures for minutes.
SCAN_RETRY = RetryPolicy(max_attempts=10, base_delay_seconds=30)


class DocumentPayload(AccountPayload):
    """A document by our id, with its message."""

    message_id: UUID
    document_id: UUID


class MessageIndexPayload(JobPayload):
    """Messages by our ids; without any, all of the firm's that are not indexed yet."""

    message_ids: list[UUID] = Field(default_factory=list, max_length=PAGE)


def _left(document_id: UUID) -> dict[str, Any]:
    return {"skipped": True, "reason": f"Document {document_id} is further on already"}


def _find(payload: DocumentPayload, status: DocumentStatus) -> Document | None:
    try:
        return documents.document_in(payload.tenant_id, payload.document_id, status)
    except RowGone as error:
        raise Cancel(str(error)) from error


@job(
    documents.FETCH_TYPE,
    category=Category.DOCUMENTS,
    payload=DocumentPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=2 * units.READ,
    breaker=GMAIL_BREAKER,
    idempotency_key=lambda p: f"{documents.FETCH_TYPE}:{p.document_id}",
)
def fetch(payload: DocumentPayload, ctx: JobContext) -> dict[str, Any] | None:
    """Fetch an attachment from Gmail, and have it scanned; none of a mailbox that is closed."""
    content, refused = b"", None
    document: Document | None = None
    try:
        with mailbox(payload) as (account, gmail):
            document = _find(payload, DocumentStatus.WAITING)
            if document is not None:
                content = documents.fetch_content(account, gmail, document)
    except Unreadable as error:
        refused = error.reason
    except Cancel as error:
        if not isinstance(error.__cause__, MailboxDisconnected | MailboxInactive):
            raise
        document, refused = _find(payload, DocumentStatus.WAITING), Unread.DISCONNECTED
    if document is None:
        return _left(payload.document_id)
    with ctx.transaction() as tx:
        if refused is not None:
            tx.result = documents.end_document(document, refused, status=DocumentStatus.SKIPPED)
        else:
            tx.result = documents.keep_content(document, content)
    return None


@job(
    documents.SCAN_TYPE,
    category=Category.DOCUMENTS,
    payload=DocumentPayload,
    retry=SCAN_RETRY,
    idempotency_key=lambda p: f"{documents.SCAN_TYPE}:{p.document_id}",
)
def scan(payload: DocumentPayload, ctx: JobContext) -> dict[str, Any] | None:
    """Have clamd look at an attachment, where there is one, and have it read unless it is infected."""
    document = _find(payload, DocumentStatus.FETCHED)
    if document is None:
        return _left(payload.document_id)
    url, malware, refused = clamd_url(), "", None
    if url and document.content is not None:
        try:
            malware = clamd.scan(url, bytes(document.content))
        except clamd.ScannerUnavailable as error:
            raise Retryable(str(error)) from error
        except Unreadable as error:
            refused = error.reason
    with ctx.transaction() as tx:
        if document.content is None:
            tx.result = documents.fetch_again(document)
        elif refused is not None:
            tx.result = documents.end_document(document, refused)
        else:
            tx.result = documents.keep_verdict(document, _verdict(url, malware), malware)
    return None


def _verdict(url: str, malware: str) -> ScanResult:
    if not url:
        return ScanResult.NOT_SCANNED
    return ScanResult.INFECTED if malware else ScanResult.CLEAN


@job(
    documents.EXTRACT_TYPE,
    category=Category.DOCUMENTS,
    payload=DocumentPayload,
    idempotency_key=lambda p: f"{documents.EXTRACT_TYPE}:{p.document_id}",
)
def extract(payload: DocumentPayload, ctx: JobContext) -> dict[str, Any] | None:
    """Read an attachment in a process of its own, and let search find its message by what it says."""
    document = _find(payload, DocumentStatus.SCANNED)
    if document is None:
        return _left(payload.document_id)
    attachment = document.attachment
    kind = kind_of(attachment.filename, attachment.mime_type)
    extraction = None
    if kind is not None and document.content is not None:
        extraction = extract_text(bytes(document.content), kind, document_limits())
        if extraction.interrupted and not ctx.is_last_attempt:
            raise Retryable(f"{INTERRUPTED}: {extraction.reason}")
    with waiting_for_keys(), ctx.transaction() as tx:
        if kind is None:
            tx.result = documents.end_document(document, Unread.WRONG_TYPE)
        elif extraction is None:
            tx.result = documents.fetch_again(document)
        else:
            tx.result = documents.keep_text(document, extraction)
    return None


@job("message.index", category=Category.DOCUMENTS, payload=MessageIndexPayload)
def index(payload: MessageIndexPayload, ctx: JobContext) -> dict[str, Any]:
    """Index messages. What is ingested is indexed at once: this is for mail from before that."""
    if payload.message_ids:
        return {"indexed": index_some(payload.tenant_id, payload.message_ids)}
    indexed, last = index_missing(payload.tenant_id)
    # From where the last page ended, because newer mail would be read again for each page.
    while last is not None:
        ctx.heartbeat()
        some, last = index_missing(payload.tenant_id, before=last)
        indexed += some
    return {"indexed": indexed}


default_schedule(
    "Index mail",
    "message.index",
    every_seconds=lambda: SWEEP_SECONDS,
    group_name=UNINDEXED,
    at_start=True,
)
