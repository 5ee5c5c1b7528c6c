"""Recognises Mailroom's own e-mails, so that what they quote and link to is never read as mail."""

from __future__ import annotations

from jobs.operations.notifications.emails import NOTICE_HEADER, is_notice_mark
from mail.text.parsed import Headers


def is_own_notice(headers: Headers) -> bool:
    """Say whether Mailroom wrote this e-mail."""
    value = headers.get(NOTICE_HEADER)
    return value is not None and is_notice_mark(value)
