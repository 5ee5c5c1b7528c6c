"""Knows Mailroom's own e-mails again, so that what they quote and link to is never read as mail."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.core import signing

from mail.text.parsed import Headers

NOTICE_HEADER: Final = "X-Mailroom-Notice"
# Signed: a stranger who copies the header does not hide a message from Mailroom.
_SIGNER = signing.Signer(salt="mail.notice", sep=":")


def notice_mark(notice_id: UUID) -> str:
    """Return the value of the header."""
    return _SIGNER.sign(notice_id.hex)


def is_own_notice(headers: Headers) -> bool:
    """Say whether Mailroom wrote this e-mail."""
    value = headers.get(NOTICE_HEADER)
    if value is None:
        return False
    try:
        _SIGNER.unsign(value.strip())
    except signing.BadSignature:
        return False
    return True
