"""Marks the service's own e-mails, so that it recognises them in the mailboxes it reads."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.core import signing

NOTICE_HEADER: Final = "X-Mailroom-Notice"
# Signed, so that a stranger cannot invent a header that hides a message from Mailroom.
_SIGNER = signing.Signer(salt="mail.notice", sep=":")


def notice_mark(notice_id: UUID) -> str:
    """Return the value of the header."""
    return _SIGNER.sign(notice_id.hex)


def is_notice_mark(value: str) -> bool:
    """Say whether the service signed this value of the header."""
    try:
        _SIGNER.unsign(value.strip())
    except signing.BadSignature:
        return False
    return True
