"""What the mailbox keeps of a message beside its bytes: threading keys, search text, snippet."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import nh3

from mail.gmail.simulator.mime import Part, decode_words
from mail.text.html_depth import buildable

_SNIPPET_CHARACTERS = 200
_SEARCHED_CHARACTERS = 64 * 1024
_MAX_REFERENCES = 200
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,500})>")
_REPLY_PREFIX = re.compile(
    r"^(?:re|fwd?|aw|wg|sv|vs|odp|tr|rif|antw)(?:\[\d{1,4}\])?\s*:\s*", re.IGNORECASE
)
_RECIPIENT_HEADERS = ("To", "Cc", "Bcc")


@dataclass(frozen=True, slots=True)
class Letter:
    """The searchable and threadable side of one message."""

    rfc822_id: str
    """Message-ID without angle brackets; empty when there is none."""
    references: frozenset[str]
    thread_subject: str
    """Subject without reply prefixes, case and spacing."""
    subject: str
    sender: str
    recipients: str
    body: str
    snippet: str
    has_attachment: bool
    sent_at: datetime | None
    """From the Date header, else the latest Received header."""

    @property
    def thread_ids(self) -> frozenset[str]:
        """Return the Message-IDs that tie this letter to others, its own among them."""
        return (self.references | {self.rfc822_id}) - {""}


def read_letter(root: Part) -> Letter:
    """Return the letter in a parsed message; never raises."""
    subject = decode_words(root.header("Subject"))
    body = _body_text(root)
    return Letter(
        rfc822_id=_first_id(root.header("Message-ID")),
        references=frozenset(
            _MESSAGE_ID.findall(f"{root.header('References')} {root.header('In-Reply-To')}")[
                -_MAX_REFERENCES:
            ]
        ),
        thread_subject=_thread_subject(subject),
        subject=subject,
        sender=decode_words(root.header("From")),
        recipients=" ".join(
            decode_words(value) for name in _RECIPIENT_HEADERS for value in root.all_headers(name)
        ),
        body=body[:_SEARCHED_CHARACTERS],
        snippet=html.escape(
            " ".join(body[: 4 * _SNIPPET_CHARACTERS].split())[:_SNIPPET_CHARACTERS]
        ),
        has_attachment=any(part.is_attachment for part in root.walk()),
        sent_at=_sent_at(root),
    )


def _first_id(value: str) -> str:
    match = _MESSAGE_ID.search(value)
    return match[1] if match else value.strip()[:500]


def _thread_subject(subject: str) -> str:
    words = " ".join(subject.split())
    while match := _REPLY_PREFIX.match(words):
        words = words[match.end() :]
    return words.casefold()[:500]


def _body_text(root: Part) -> str:
    readable = [part for part in root.walk() if not part.is_attachment]
    for mime_type in ("text/plain", "text/html"):
        texts = [part.text() for part in readable if part.mime_type == mime_type]
        joined = "\n".join(text for text in texts if text.strip())
        if joined:
            return joined if mime_type == "text/plain" else _without_tags(joined)
    return ""


def _without_tags(markup: str) -> str:
    spaced = buildable(markup[: 8 * _SEARCHED_CHARACTERS].replace("<", " <"))
    return html.unescape(nh3.clean(spaced, tags=set(), clean_content_tags={"script", "style"}))


def _sent_at(root: Part) -> datetime | None:
    received = [value.rpartition(";")[2] for value in root.all_headers("Received")]
    for value in (root.header("Date"), *received):
        if moment := _parse_date(value):
            return moment
    return None


def _parse_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value.strip()[:200])
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        moment = moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.year >= 1970 else None
