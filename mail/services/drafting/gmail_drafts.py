"""Reads the drafts of a thread in Gmail, and tells whether the person has changed one.

A draft begins with the marker; what the person writes above it is an order. Each edit gives the
draft's message another id, so moving it to the trash by its id cannot hit an edit nobody has read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from typing import Final

import nh3

from mail.gmail.answers import Message as GmailMessage
from mail.gmail.answers import pages
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailError, GmailNotFound
from mail.gmail.mime import OutgoingMail, in_ascii
from mail.models import MAX_INSTRUCTION_LENGTH, Draft, DraftStatus, MailAccount
from mail.text.cleaning import clean_text
from mail.text.html_depth import buildable
from mail.text.html_text import html_to_text
from mail.text.parse import parse_message
from mail.text.parsed import Address, ParsedMail
from mail.text.parts import raw_headers
from mail.text.quotes import split_reply
from tenants.scope import firm_scope

MARKER: Final = "✂️"
# The variation selector is optional, because some programs drop it.
_MARKER: Final = re.compile("✂\ufe0f?")
MAX_DRAFT_CHARS: Final = 100_000
# How many of the newest drafts are read to find one outside its thread.
MOST_OUTSIDE: Final = 50
# How many lines may say whose words follow.
_MOST_BEFORE_QUOTE: Final = 3
NO_INSTRUCTION: Final = "(no specific instruction provided)"
_TAG: Final = re.compile(r"(<[^>]*>)")
# These tags begin and end a line; other tags stand between words.
_BLOCK: Final = re.compile(r"</?(?:div|p|li|ul|ol|h[1-6]|blockquote|pre|table|tr|hr)\b")
_TAGS: Final = nh3.ALLOWED_TAGS | {"font", "big"}
_ATTRIBUTES: Final = {
    "*": {"style", "align", "color", "face", "size"}, "a": {"href"}, "img": {"src"},
}  # fmt: skip
# Tags that only hold text; programs put them around every line.
_BARE: Final = frozenset(
    {"<br>", *(f"<{end}{name}>" for name in ("div", "p", "span") for end in ("", "/"))}
)


@dataclass(frozen=True)
class GmailDraft:
    """A draft in Gmail."""

    draft_id: str
    gmail_message_id: str
    rfc822_id: str
    text: str
    content_hash: str
    hash_below: str
    """The content hash without what stands above the marker."""
    files: tuple[tuple[str, int], ...]
    """The names and sizes of the attached files."""

    @property
    def has_files(self) -> bool:
        """Whether anything is attached."""
        return bool(self.files)

    @property
    def has_marker(self) -> bool:
        """Whether it contains the marker: then Mailroom wrote it, or a version of it."""
        return _MARKER.search(self.text) is not None

    @property
    def above(self) -> str:
        """What the person wrote above the marker; the whole text if there is no marker."""
        return _MARKER.split(self.text, maxsplit=1)[0].strip()

    @property
    def said(self) -> str:
        """What the person wrote above the marker, without the mail that the draft quotes there.

        That mail is somebody else's word, and must not pass for the person's.
        """
        parts = split_reply(self.above)
        return parts.reply if parts.quoted else self.above

    @property
    def below(self) -> str:
        """What stands below the marker."""
        parts = _MARKER.split(self.text, maxsplit=1)
        return parts[1].strip() if len(parts) > 1 else ""


def draft_body(text: str) -> str:
    """Return the body of a draft: room for orders, the marker, the text."""
    return f"\n\n{MARKER}\n\n{text}"


def content_hash(mail: OutgoingMail, files: Iterable[tuple[str, int]] = ()) -> str:
    """Return the hash that Gmail's draft has until somebody edits it; `files` are attached."""
    people = [_keys((mail.sender,)), _keys(mail.to), _keys(mail.cc), _keys(mail.bcc)]
    text = mail.text
    if mail.html and not text.strip():
        text = html_to_text(mail.html).shown
    return _hash(people, mail.subject, text, _markup(mail.html), sorted(files))


def is_edited(draft: Draft, current: GmailDraft) -> bool:
    """Say whether the person has changed the draft since it was written.

    While the draft has the message id that was seen last, it has not changed since.
    """
    if current.gmail_message_id == draft.gmail_message_id:
        return draft.edited
    return current.content_hash != draft.content_hash


def is_edited_below(draft: Draft, current: GmailDraft) -> bool:
    """Say whether the person has changed anything but what stands above the marker."""
    return is_edited(draft, current) and current.hash_below != draft.content_hash


def is_kept_whole(current: GmailDraft, instruction: str) -> bool:
    """Say whether the instruction is all above the marker but quoted mail, without a file."""
    if current.has_files or current.said != instruction:
        return False
    rest = current.above.removeprefix(instruction)
    return not rest or (current.above.startswith(instruction) and _is_quote(rest))


def _is_quote(text: str) -> bool:
    """Say whether the text is quoted lines alone, after a few that say whose.

    Quoted lines without those may be what the person wants to have said.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line.startswith(">") for line in lines]
    before = marked.index(True) if True in marked else 0
    return 0 < before <= _MOST_BEFORE_QUOTE and all(marked[before:])


def order_in(draft: Draft, current: GmailDraft) -> str:
    """Return how the person wants the draft reworked: as said above the marker, else elsewhere."""
    above = current.above if current.has_marker else ""
    return (above or draft.next_instruction or NO_INSTRUCTION)[:MAX_INSTRUCTION_LENGTH]


def read_draft(gmail: GmailClient, draft_id: str) -> GmailDraft | None:
    """Return the draft; None if it is sent, discarded or in the trash."""
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
    for page in pages(gmail.list_drafts):
        for one in page.get("drafts", []):
            if one["message"].get("threadId") == gmail_thread_id:
                draft = read_draft(gmail, one["id"])
                found += [] if draft is None else [draft]
    return found


def drafts_outside(account: MailAccount, gmail: GmailClient, rfc822_id: str) -> list[GmailDraft]:
    """Return the drafts with this Message-ID among the newest of all threads.

    Gmail puts a draft into a thread of its own if it cannot refer to the message that it answers,
    because that has no proper Message-ID. Gmail's search would find all, but it may lag behind.
    Drafts whose ids are stored are other ones, so no quota is spent on reading them.
    """
    listed = gmail.list_drafts().get("drafts", [])
    with firm_scope(account.firm_id):
        ready = Draft.objects.filter(account=account, status=DraftStatus.READY)
        known = set(ready.values_list("gmail_draft_id", flat=True))
    newest = [one for one in listed if one["id"] not in known][:MOST_OUTSIDE]
    draft_ids = {one["message"]["id"]: one["id"] for one in newest}
    found = (
        read_draft(gmail, draft_ids[message_id])
        for answers in gmail.get_messages(list(draft_ids), "metadata")
        for message_id, answer in answers.items()
        if not isinstance(answer, GmailError) and _message_id(answer) == rfc822_id
    )
    return [draft for draft in found if draft is not None]


def _message_id(message: GmailMessage) -> str:
    return (raw_headers(message.get("payload", {})).get("Message-ID") or "").strip()


def trash_unless_edited(gmail: GmailClient, draft: GmailDraft) -> bool:
    """Move the draft as it was read to the trash; return False if it was edited or moved since."""
    try:
        gmail.trash(draft.gmail_message_id)
    except GmailNotFound:
        return False
    return True


def trash_unedited(
    account: MailAccount,
    gmail: GmailClient,
    gmail_thread_id: str,
    rfc822_id: str,
    content_hash: str,
) -> int:
    """Move the unedited drafts with this Message-ID to the trash; return how many."""
    found = [one for one in thread_drafts(gmail, gmail_thread_id) if one.rfc822_id == rfc822_id]
    found = found or drafts_outside(account, gmail, rfc822_id)
    ours = [one for one in found if one.content_hash == content_hash]
    return sum(trash_unless_edited(gmail, one) for one in ours)


def _parsed(draft_id: str, message: GmailMessage, gmail: GmailClient) -> GmailDraft:
    mail = parse_message(message, fetch=lambda one: gmail.get_attachment(message["id"], one))
    markup = _markup(mail.html or "")
    return GmailDraft(
        draft_id=draft_id,
        gmail_message_id=message["id"],
        rfc822_id=mail.message_id,
        text=mail.text,
        content_hash=_hash_of(mail, mail.text, markup),
        hash_below=_hash_of(mail, _from_marker(mail.text), _from_marker(markup)),
        files=tuple((file.filename, file.size) for file in mail.attachments),
    )


def _hash_of(mail: ParsedMail, text: str, markup: str) -> str:
    people = [_keys((mail.sender,)), _keys(mail.to), _keys(mail.cc), _keys(mail.bcc)]
    files = sorted((file.filename, file.size) for file in mail.attachments)
    return _hash(people, mail.subject, text, markup, files)


def _hash(
    people: list[list[str]], subject: str, text: str, markup: str, files: list[tuple[str, int]]
) -> str:
    text = _MARKER.sub(MARKER, clean_text(text, MAX_DRAFT_CHARS))
    # Plain text beside HTML is wrapped by programs, so the lines of the HTML are compared.
    shown = _MARKER.sub(MARKER, _shown(markup)) if markup else text
    formats = [tag for tag in _TAG.findall(markup) if tag not in _BARE]
    said = [people, subject.split(), text.split(), _lines(shown), formats, files]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _keys(addresses: Iterable[Address]) -> list[str]:
    return sorted(in_ascii(address.key) for address in addresses)


def _shown(markup: str) -> str:
    """Return the text of HTML, line by line; a blank line is one with nothing but a break."""
    lines = [""]
    for piece in _TAG.split(markup):
        if piece == "<br>" or (_BLOCK.match(piece) and lines[-1].strip()):
            lines.append("")
        elif not piece.startswith("<"):
            lines[-1] += unescape(piece).replace("\n", " ")
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    """Return the lines, with one blank line instead of several, and none at the ends."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    return [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]


def _markup(html: str) -> str:
    """Return HTML reduced to its text, the tags that change how it looks, and its links."""
    return (
        nh3.clean(buildable(html), tags=set(_TAGS), attributes=_ATTRIBUTES, link_rel=None)
        if html
        else ""
    )


def _from_marker(text: str) -> str:
    start = _MARKER.search(text)
    return text[start.start() :] if start else text
