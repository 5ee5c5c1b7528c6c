"""Discord: what a question with buttons looks like, and who pressed one."""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# An older request is refused, so that a recorded press of a button cannot be replayed.
MAX_AGE_SECONDS = 300

PING: Final = 1
_PONG: Final = 1
_MESSAGE: Final = 4
_UPDATE: Final = 7
_ONLY_FOR_THE_PRESSER: Final = 64
_ROW, _BUTTON = 1, 2
_GREEN, _RED, _LINK = 3, 4, 5


def is_signed(public_key: str, signature: str, timestamp: str, body: bytes) -> bool:
    """Say whether Discord signed this request, within the last minutes."""
    try:
        age = abs(time.time() - int(timestamp))
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), timestamp.encode() + body)
    except (ValueError, InvalidSignature, OverflowError):
        return False
    return age <= MAX_AGE_SECONDS


def question(text: str, *, approve_id: str, reject_id: str, page: str = "") -> dict[str, Any]:
    """Return a message with two buttons, and a third that opens the page."""
    buttons: list[dict[str, Any]] = [
        {"type": _BUTTON, "style": _GREEN, "label": "Approve", "custom_id": approve_id},
        {"type": _BUTTON, "style": _RED, "label": "Reject", "custom_id": reject_id},
    ]
    if page:
        buttons.append({"type": _BUTTON, "style": _LINK, "label": "Open in Mailroom", "url": page})
    return {
        "content": text,
        "components": [{"type": _ROW, "components": buttons}],
        # No name in the text notifies anybody.
        "allowed_mentions": {"parse": []},
    }


def pong() -> dict[str, Any]:
    """Return the answer to Discord's ping."""
    return {"type": _PONG}


def closed(text: str) -> dict[str, Any]:
    """Return the answer that replaces the question, its buttons gone."""
    return {"type": _UPDATE, "data": {"content": text, "components": []}}


def whispered(text: str) -> dict[str, Any]:
    """Return the answer that only the person who pressed the button sees."""
    return {"type": _MESSAGE, "data": {"content": text, "flags": _ONLY_FOR_THE_PRESSER}}


def with_buttons(webhook: str) -> str:
    """Return the URL at which an application's webhook takes messages with buttons."""
    return urlunsplit((*urlsplit(webhook)[:3], "with_components=true", ""))


def plain(text: str) -> str:
    """Return text in which Discord finds no markup."""
    return "".join(f"\\{one}" if one in "\\*_~`|>#[]()<@:" else one for one in text)
