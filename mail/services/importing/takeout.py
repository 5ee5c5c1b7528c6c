"""Reads the labels that Google Takeout writes into a message's X-Gmail-Labels header."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from email.message import Message
from typing import Final, NamedTuple

from mail.text.headers import decode_header

_HEADER_CHARS: Final = 4_000
_LABEL_CHARS: Final = 225
_SYSTEM: Final = {
    "inbox": "INBOX",
    "unread": "UNREAD",
    "sent": "SENT",
    "starred": "STARRED",
    "important": "IMPORTANT",
    "spam": "SPAM",
    "trash": "TRASH",
    **{
        f"category {name}": f"CATEGORY_{name.upper()}"
        for name in ("personal", "social", "promotions", "updates", "forums")
    },
}
# Names that say no more than other labels, or that an import cannot restore.
_LEFT_OUT: Final = frozenset({"opened", "archived", "chat", "draft", "drafts"})


class TakeoutLabels(NamedTuple):
    """The ids of Gmail's own labels, and the names of the person's."""

    system: tuple[str, ...]
    names: tuple[str, ...]
    tells_place: bool = True
    """Whether Gmail's own labels are in English; in another language they are among `names`."""


def takeout_labels(headers: Message) -> TakeoutLabels | None:
    """Return the labels that the message had; None if it is not from Takeout."""
    values: Sequence[object] = headers.get_all("X-Gmail-Labels", [])
    if not values:
        return None
    text = decode_header(" ".join(str(values[0]).split()), _HEADER_CHARS)
    found = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    known = [name for name in dict.fromkeys(found) if name and name.lower() not in _LEFT_OUT]
    own = {name.lower() for name in found} & (_SYSTEM.keys() | _LEFT_OUT)
    return TakeoutLabels(
        system=tuple(_SYSTEM[name.lower()] for name in known if name.lower() in _SYSTEM),
        names=tuple(name[:_LABEL_CHARS] for name in known if name.lower() not in _SYSTEM),
        tells_place=bool(own),
    )
