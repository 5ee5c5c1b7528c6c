"""Reads the settings of Discord."""

from __future__ import annotations

import re

KEY = re.compile(r"[0-9a-f]{64}")
USER = re.compile(r"(\d{1,20})=(\S{1,150})")


def public_key(text: str) -> str:
    """Return an application's public key, as Discord shows it; empty for none.

    Raises:
        ValueError: the text is no public key.
    """
    if text and not KEY.fullmatch(text.lower()):
        raise ValueError("must be the 64 hexadecimal digits of the application's public key")
    return text.lower()


def users(text: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a Discord user's id and Mailroom's user name, from `ID=NAME,ID=NAME`.

    Raises:
        ValueError: an entry does not have this form.
    """
    found = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = USER.fullmatch(entry)
        if match is None:
            raise ValueError(f"must be ID=NAME,ID=NAME with Discord's ids; one entry is {entry!r}")
        found.append((match[1], match[2]))
    return tuple(found)
