"""Cleans every string from a message before it is stored."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = {code: None for code in (*range(32), 127) if chr(code) not in "\n\t"}
_OVERRIDES: Final = {code: f"[U+{code:04X}]" for code in (0x202D, 0x202E)}
_REPLACED: Final[dict[int, str | None]] = {**_CONTROLS, **_OVERRIDES}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def clean_text(text: str, limit: int) -> str:
    """Return ``text`` with Unix line ends, at most ``limit`` characters and safe to store.

    Control characters are removed, because PostgreSQL refuses NUL and the others only disturb a
    reader. Lone surrogates become U+FFFD, as they cannot be written as UTF-8. Characters that
    override the direction of writing, and so can make "exe.pdf" out of "fdp.exe", are replaced by
    their code points.
    """
    text = text[: 2 * limit].replace("\r\n", "\n").replace("\r", "\n").translate(_REPLACED)
    return _SURROGATE.sub("\ufffd", text)[:limit]


def clean_line(text: str, limit: int) -> str:
    """Return ``text`` as one line: as ``clean_text``, with every run of white space one space."""
    return " ".join(clean_text(text, 2 * limit).split())[:limit].rstrip()
