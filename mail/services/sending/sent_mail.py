"""Finds out whether a message went out: by its Message-ID, in Gmail's search and history."""

from __future__ import annotations

from mail.gmail.answers import HistoryPage, Message, MessageReference
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailHistoryExpired, GmailNotFound
from mail.gmail.mime import OUTBOUND_HEADER
from mail.models import OutboundMessage
from mail.text.parts import raw_headers

SENT = "SENT"


def rfc822_query(outbound: OutboundMessage) -> str:
    """Return the search for everything that bears the message's Message-ID."""
    return f"rfc822msgid:{outbound.rfc822_id.strip('<>')}"


def search_sent(gmail: GmailClient, outbound: OutboundMessage) -> MessageReference | None:
    """Return the sent message by Gmail's search; None does not mean that it was not sent."""
    page = gmail.list_messages(rfc822_query(outbound), label_id=SENT, everywhere=True)
    return next(iter(page.get("messages", [])), None)


def sent_in_history(gmail: GmailClient, outbound: OutboundMessage) -> MessageReference | None:
    """Return the sent message from what the mailbox notes of itself, which does not lag."""
    if outbound.history_id is None:
        return None
    for added in _added_since(gmail, str(outbound.history_id)):
        if SENT not in added.get("labelIds", [SENT]):
            continue
        try:
            message = gmail.get_message(added["id"], fmt="metadata")
        except GmailNotFound:
            continue
        if _is_it(message, outbound):
            return added
    return None


def _added_since(gmail: GmailClient, history_id: str) -> list[MessageReference]:
    added: list[MessageReference] = []
    page_token: str | None = None
    while True:
        try:
            page: HistoryPage = gmail.history(history_id, page_token)
        except GmailHistoryExpired:
            return added
        for record in page.get("history", []):
            added += [change["message"] for change in record.get("messagesAdded", [])]
        page_token = page.get("nextPageToken")
        if not page_token:
            return added


def _is_it(message: Message, outbound: OutboundMessage) -> bool:
    """Compare our own header, too: Gmail may give a message another Message-ID."""
    headers = raw_headers(message.get("payload", {}))
    if SENT not in message.get("labelIds", []):
        return False
    own = (headers.get("Message-ID") or "").strip() == outbound.rfc822_id
    return own or (headers.get(OUTBOUND_HEADER) or "").strip() == str(outbound.pk)
