"""Fetches messages, parses them, stores them with their threads, and has the threads judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import DatabaseError

from jobs.operations.notifications.emails import NOTICE_HEADER, is_notice_mark
from mail.errors import MailboxWaits
from mail.gmail.answers import Message as GmailMessage
from mail.gmail.client import GmailClient
from mail.gmail.errors import (
    GmailAuthExpired,
    GmailError,
    GmailMisconfigured,
    GmailNotFound,
    GmailRateLimited,
)
from mail.models import MailAccount, Message
from mail.services.exports.suppression import Suppression
from mail.services.queueing import enqueue_each_ingest
from mail.services.rules.routing import hand_over
from mail.services.rules.unseen import act_on_late
from mail.services.syncing.mirror import cursor_of
from mail.services.syncing.store_messages import Fetched, StoredMessage, store_messages
from mail.text.parse import parse_message
from mail.text.parsed import ParsedMail
from tenants.scope import firm_scope

# How often a message's labels are read again because a sync moved the cursor meanwhile.
MOST_READINGS = 5
BUSY_SECONDS = 1.0
_BUSY = "The mailbox is being read: the message has to wait"
ERASED = "The message mentions a person who was erased"
_ABOUT_THE_MAILBOX = (GmailAuthExpired, GmailMisconfigured, GmailRateLimited)

logger = structlog.get_logger(__name__)


@dataclass
class Page:
    """What became of a page's messages: fetched, to be ingested alone, or skipped."""

    fetched: list[Fetched] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    skipped: int = 0
    error: GmailError | None = None
    """Why the rest of the page was not read; an error of the whole mailbox."""


def ingest_message(
    account: MailAccount, gmail: GmailClient, gmail_message_id: str
) -> dict[str, Any]:
    """Store one message, new or known, and return the job's result.

    Raises:
        MailboxWaits: syncs moved the cursor again and again meanwhile.
    """
    try:
        with firm_scope(account.firm_id):
            cursor = cursor_of(account)
        resource = gmail.get_message(gmail_message_id)
        if _is_draft(resource):
            return {"skipped": True, "reason": "The message is a draft"}
        fetched = _parsed(gmail, resource)
        if is_own_notice(fetched.mail):
            return {"skipped": True, "reason": "The message is Mailroom's own notice"}
        for _ in range(MOST_READINGS):
            with firm_scope(account.firm_id):
                now = cursor_of(account, lock=True)
                if now == cursor:
                    if Suppression(account.firm_id).mentions_erased(fetched.mail):
                        return {"skipped": True, "reason": ERASED}
                    (stored,) = store_messages(account, [fetched])
                    _hand_over(account, [stored])
                    return {"message_id": str(stored.message.pk), "created": stored.created}
            # A sync moved the cursor meanwhile. Only the labels of a message can have changed.
            cursor = now
            again = gmail.get_message(gmail_message_id, fmt="minimal")
            resource["labelIds"] = again.get("labelIds", [])
    except GmailNotFound:
        return {"skipped": True, "reason": "The message is no longer in Gmail"}
    raise MailboxWaits(_BUSY, seconds=BUSY_SECONDS)


def ingest_page(
    account: MailAccount, gmail: GmailClient, gmail_message_ids: Sequence[str]
) -> dict[str, Any]:
    """Store the messages that are not stored yet, and return the job's result.

    A message that cannot be read or stored with the others gets its own `ingest.gmail` job.
    Messages that were stored stay stored, even if an error is raised.

    Raises:
        MailboxWaits: syncs moved the cursor again and again meanwhile.
        GmailError: Gmail refused the mailbox as a whole.
    """
    with firm_scope(account.firm_id):
        cursor = cursor_of(account)
        known = Message.objects.filter(account=account, gmail_message_id__in=gmail_message_ids)
        stored = set(known.values_list("gmail_message_id", flat=True))
    page = _read_page(gmail, [one for one in gmail_message_ids if one not in stored])
    created = _store_page(account, gmail, page, cursor)
    if page.error is not None:
        raise page.error
    return {
        "created": created,
        "known": len(stored),
        "skipped": page.skipped,
        "ingested_alone": len(page.apart),
    }


def _read_page(gmail: GmailClient, gmail_message_ids: Sequence[str]) -> Page:
    page = Page()
    for answers in gmail.get_messages(gmail_message_ids):
        for gmail_message_id, answer in answers.items():
            if isinstance(answer, GmailNotFound):
                page.skipped += 1
            elif isinstance(answer, _ABOUT_THE_MAILBOX):
                page.error = answer
            elif isinstance(answer, GmailError):
                page.apart.append(gmail_message_id)
            elif _is_draft(answer):
                page.skipped += 1
            else:
                _parse_into(page, gmail, answer)
        if page.error is not None:
            break
    return page


def _parse_into(page: Page, gmail: GmailClient, resource: GmailMessage) -> None:
    try:
        fetched = _parsed(gmail, resource)
    except _ABOUT_THE_MAILBOX as error:
        page.error = error
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others are stored
        logger.warning("mail.left_the_page", error_class=type(error).__name__)
        page.apart.append(resource["id"])
    else:
        if is_own_notice(fetched.mail):
            page.skipped += 1
        else:
            page.fetched.append(fetched)


def _store_page(account: MailAccount, gmail: GmailClient, page: Page, cursor: int | None) -> int:
    """Store the page's messages and have their threads judged; return how many were new."""
    for _ in range(MOST_READINGS):
        with firm_scope(account.firm_id):
            now = cursor_of(account, lock=True)
            if now == cursor:
                _leave_out_erased(account, page)
                stored = _store_or_set_apart(account, page)
                enqueue_each_ingest(account, page.apart)
                _hand_over(account, stored)
                return sum(one.created for one in stored)
        cursor = now
        _read_labels_again(gmail, page)
    raise MailboxWaits(_BUSY, seconds=BUSY_SECONDS)


def _hand_over(account: MailAccount, stored: Sequence[StoredMessage]) -> None:
    new = {one.message.pk for one in stored if one.created}
    judged = hand_over(account, [one.message for one in stored if one.to_be_judged])
    act_on_late(account, [message for message in judged if message.pk in new])


def _leave_out_erased(account: MailAccount, page: Page) -> None:
    suppression = Suppression(account.firm_id)
    wanted = [one for one in page.fetched if not suppression.mentions_erased(one.mail)]
    page.skipped += len(page.fetched) - len(wanted)
    page.fetched = wanted


def _store_or_set_apart(account: MailAccount, page: Page) -> list[StoredMessage]:
    try:
        # In a savepoint, so that a message which the database refuses does not undo the page.
        with firm_scope(account.firm_id):
            return store_messages(account, page.fetched) if page.fetched else []
    except (DatabaseError, ValueError) as error:
        logger.warning("mail.page_refused", error_class=type(error).__name__)
        page.apart += [one.resource["id"] for one in page.fetched]
        return []


def _read_labels_again(gmail: GmailClient, page: Page) -> None:
    """Read the labels anew, because a sync moved the cursor; messages may be gone, too."""
    present: list[Fetched] = []
    fetched = {one.resource["id"]: one for one in page.fetched}
    for answers in gmail.get_messages(list(fetched), "minimal"):
        for gmail_message_id, answer in answers.items():
            if isinstance(answer, GmailNotFound):
                page.skipped += 1
            elif isinstance(answer, GmailError):
                page.apart.append(gmail_message_id)
            else:
                one = fetched[gmail_message_id]
                one.resource["labelIds"] = answer.get("labelIds", [])
                present.append(one)
    page.fetched = present


def _parsed(gmail: GmailClient, resource: GmailMessage) -> Fetched:
    def fetch(attachment_id: str) -> bytes:
        return gmail.get_attachment(resource["id"], attachment_id)

    return Fetched(resource, parse_message(resource, fetch=fetch))


def _is_draft(resource: GmailMessage) -> bool:
    return "DRAFT" in resource.get("labelIds", [])


def is_own_notice(mail: ParsedMail) -> bool:
    """Say whether Mailroom wrote this e-mail, so that what it quotes and links to is not read."""
    value = mail.headers.get(NOTICE_HEADER)
    if value is None or mail.html is not None or mail.attachments:
        return False
    return is_notice_mark(value, mail.subject, mail.text)
