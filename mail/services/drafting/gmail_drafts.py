"""The drafts of a thread as they are in Gmail, and whether the person has changed one of ours.

A draft begins with the marker; what the person writes above it is an order. An edit gives a draft's
message another id, so that moving it to the trash by that id cannot hit an edit nobody has seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final

from mail.gmail.answers import Message as GmailMessage
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
from mail.text.cleaning import clean_text
from mail.text.parse import parse_message
from mail.text.parsed import Address, AttachmentMeta

MARKER: Final = "✂️"
# Some programs drop the variation selector.
_MARKER: Final = re.compile("✂\ufe0f?")
MAX_DRAFT_CHARS: Final = 100_000


@dataclass(frozen=True)
class GmailDraft:
    """A draft in Gmail."""

    draft_id: str
    gmail_message_id: str
    rfc822_id: str
    text: str
    content_hash: str
    hash_below: str
    """The content hash as it would be without what stands above the marker."""

    @property
    def has_marker(self) -> bool:
        """Whether the marker is in it: Mailroom wrote it, or a version of it."""
        return _MARKER.search(self.text) is not None

    @property
    def above(self) -> str:
        """What the person wrote above the marker; all of it where there is none."""
        return _MARKER.split(self.text, maxsplit=1)[0].strip()

    @property
    def below(self) -> str:
        """What stands below the marker."""
        parts = _MARKER.split(self.text, maxsplit=1)
        return parts[1].strip() if len(parts) > 1 else ""


def draft_body(text: str) -> str:
    """Return the body of a draft: room for orders, the marker, the text."""
    return f"\n\n{MARKER}\n\n{text}"


def content_hash(
    recipients: list[str], subject: str, text: str, files: tuple[AttachmentMeta, ...] = ()
) -> str:
    """Return the hash of what a draft says; white space does not count, as programs rewrap."""
    said = [
        sorted(recipients),
        " ".join(subject.split()),
        _MARKER.sub(MARKER, clean_text(text, MAX_DRAFT_CHARS)).split(),
        sorted((file.filename, file.size) for file in files),
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def keys_of(*addresses: Address) -> list[str]:
    """Return the addresses as the content hash takes them."""
    return [address.key for address in addresses]


def read_draft(gmail: GmailClient, draft_id: str) -> GmailDraft | None:
    """Return the draft, None for one that is sent, discarded or in the trash."""
    try:
        message = gmail.get_draft(draft_id)["message"]
    except GmailNotFound:
        return None
    labels = message.get("labelIds", [])
    if "DRAFT" not in labels or "TRASH" in labels:
        return None
    return _parsed(draft_id, message, gmail)


def thread_drafts(gmail: GmailClient, gmail_thread_id: str) -> list[GmailDraft]:
    """Return the drafts of a thread, the newest first."""
    found: list[GmailDraft] = []
    page_token: str | None = None
    while True:
        page = gmail.list_drafts(page_token)
        for one in page.get("drafts", []):
            if one["message"].get("threadId") == gmail_thread_id:
                draft = read_draft(gmail, one["id"])
                found += [] if draft is None else [draft]
        page_token = page.get("nextPageToken")
        if not page_token:
            return found


def trash_unless_edited(gmail: GmailClient, draft: GmailDraft) -> bool:
    """Move the draft to the trash as it was read; False where somebody was faster."""
    try:
        gmail.trash(draft.gmail_message_id)
    except GmailNotFound:
        return False
    return True


def _parsed(draft_id: str, message: GmailMessage, gmail: GmailClient) -> GmailDraft:
    mail = parse_message(message, fetch=lambda one: gmail.get_attachment(message["id"], one))
    recipients = keys_of(*mail.to, *mail.cc, *mail.bcc)
    start = _MARKER.search(mail.text)
    below = mail.text[start.start() :] if start else mail.text
    return GmailDraft(
        draft_id=draft_id,
        gmail_message_id=message["id"],
        rfc822_id=mail.message_id,
        text=mail.text,
        content_hash=content_hash(recipients, mail.subject, mail.text, mail.attachments),
        hash_below=content_hash(recipients, mail.subject, below, mail.attachments),
    )
