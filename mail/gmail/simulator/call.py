"""A checked request for a handler, and the page tokens that handlers return."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mail.gmail.simulator.answer import invalid_argument
from mail.gmail.simulator.mailbox import Mailbox

Json = dict[str, Any]

_DEFAULT_PAGE = 100
_MAX_PAGE = 500
_ABOVE_ALL = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Call:
    """One request that agrees with the discovery document."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Json

    @property
    def page_size(self) -> int:
        """Return maxResults: 100 when absent, 500 at most."""
        size: int = self.query.get("maxResults", _DEFAULT_PAGE)
        return min(size, _MAX_PAGE) or _DEFAULT_PAGE

    def page_position(self, length: int, *, first: int = _ABOVE_ALL) -> tuple[int, ...]:
        """Return the numbers inside pageToken; on the first page, ``first`` in place of each.

        Raises:
            ApiError: 400, the token is not one of ours.
        """
        token = self.query.get("pageToken")
        if not token:
            return (first,) * length
        try:
            position = json.loads(base64.urlsafe_b64decode(token))
        except (ValueError, binascii.Error):
            position = None
        if not (
            isinstance(position, list)
            and len(position) == length
            and all(isinstance(number, int) and abs(number) < 2**63 for number in position)
        ):
            raise invalid_argument("Invalid pageToken")
        return tuple(position)


def page_token(position: Sequence[int]) -> str:
    """Return the token that continues after this position."""
    return base64.urlsafe_b64encode(json.dumps(list(position)).encode()).decode()


def decode_base64url(text: str, field: str) -> bytes:
    """Return the bytes of a field, in either alphabet, padded or not.

    Raises:
        ApiError: 400, the text is no base64.
    """
    letters = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument(
            f"Invalid value at '{field}' (TYPE_BYTES), Base64 decoding failed"
        ) from None


Handler = Callable[[Mailbox, Call], Json | None]
"""Answers one method inside one transaction; None is an empty answer."""
