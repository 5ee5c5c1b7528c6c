"""Ids on the wire: 16 hexadecimal digits for messages and threads, ``r…`` for drafts."""

from __future__ import annotations

import re

_BASE = 0x1900000000000000
_STEP = 0x9E3779B1


def message_id(pk: int) -> str:
    """Return the wire id of a message; a thread has that of its first message."""
    return f"{_BASE + pk * _STEP:016x}"


def message_pk(wire_id: str) -> int | None:
    """Return the row behind a wire id, or None when the simulator never gave such an id."""
    if not re.fullmatch(r"[0-9a-f]{16}", wire_id):
        return None
    pk, remainder = divmod(int(wire_id, 16) - _BASE, _STEP)
    return pk if remainder == 0 and pk > 0 else None


def draft_id(pk: int) -> str:
    """Return the wire id of a draft."""
    return f"r{_BASE + pk * _STEP}"


def draft_pk(wire_id: str) -> int | None:
    """Return the row behind a draft's wire id, or None when there was never such an id."""
    if not re.fullmatch(r"r\d{1,19}", wire_id):
        return None
    pk, remainder = divmod(int(wire_id[1:]) - _BASE, _STEP)
    return pk if remainder == 0 and pk > 0 else None
