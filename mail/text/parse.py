"""Turns a Gmail message resource into a ParsedMail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mail.text.addresses import parse_addresses, parse_sender
from mail.text.body import read_body
from mail.text.headers import decode_header, parse_date, parse_message_ids
from mail.text.language import detect_language
from mail.text.parsed import ParsedMail
from mail.text.parts import Fetch, decoded_headers, leaves, raw_headers

_SUBJECT_CHARS: Final = 2_000


def parse_message(message: Mapping[str, Any], fetch: Fetch | None = None) -> ParsedMail:
    """Parse a Gmail API message resource of format ``full``, however broken the mail is.

    Bodies that Gmail keeps behind an attachment id are read through ``fetch``; without it, a mail
    that has no other body gets ``TextSource.DETACHED``. No content of the message raises an error;
    errors of ``fetch`` are passed on.
    """
    payload = message.get("payload")
    raw = raw_headers(payload) if isinstance(payload, Mapping) else raw_headers({})
    body = read_body(list(leaves(payload)), fetch)
    return ParsedMail(
        subject=decode_header(raw.get("Subject") or "", _SUBJECT_CHARS),
        sender=parse_sender(raw.get_all("From")),
        reply_to=parse_addresses(raw.get_all("Reply-To")),
        to=parse_addresses(raw.get_all("To")),
        cc=parse_addresses(raw.get_all("Cc")),
        bcc=parse_addresses(raw.get_all("Bcc")),
        date=parse_date(raw.get("Date")),
        message_id=next(iter(parse_message_ids(raw.get("Message-ID"))), ""),
        in_reply_to=next(iter(parse_message_ids(raw.get("In-Reply-To"))), ""),
        references=parse_message_ids(" ".join(raw.get_all("References"))),
        headers=decoded_headers(raw),
        text=body.text,
        text_source=body.source,
        html=body.html,
        hidden_text=body.hidden_text,
        attachments=body.attachments,
        calendar_method=body.calendar_method,
        language=detect_language(body.text),
    )
