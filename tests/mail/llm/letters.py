"""Builds the mails the classifier tests judge."""

from __future__ import annotations

from mail.llm.base import MailContext
from mail.text.parsed import Address, AttachmentMeta, Headers

OWNER = "tereza@bramley.example"
PERSON = Address("Ann Reed", "ann@x.example")


def attachment(mime_type: str, filename: str = "") -> AttachmentMeta:
    return AttachmentMeta("1", filename, mime_type, 10, "A1", "", inline=False)


def letter(text: str = "", subject: str = "", *, sender: Address = PERSON, **rest) -> MailContext:
    """Return a mail, by default from a person to the owner of the mailbox."""
    headers = Headers(tuple(rest.pop("headers", {}).items()))
    rest.setdefault("to", (Address("", OWNER),))
    return MailContext(
        sender=sender,
        own_addresses=frozenset({OWNER}),
        subject=subject,
        text=text,
        headers=headers,
        **rest,
    )
