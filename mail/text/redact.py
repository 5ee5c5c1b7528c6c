"""Takes addresses and secrets out of texts that leave the mailbox: error messages and logs."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = (
    r"access_token|refresh_token|id_token|client_secret|api[_-]?key|authorization|password|passwd|"
    r"secret|token"
)
_REPLACEMENTS: Final = (
    # Order matters: whole credentials first, then what may be part of one.
    (re.compile(r"\b(bearer|basic)\s{1,8}[\w.~+/=-]{6,}", re.IGNORECASE), r"\1 [secret]"),
    (re.compile(r"(://)[^\s/@:]{1,200}:[^\s/@]{1,200}@"), r"\1[secret]@"),
    (
        re.compile(
            rf"""(["']?\b(?:{_NAMES})["']?\s{{0,8}}[=:]\s{{0,8}})["']?[^\s"'&,;}}]+""", re.I
        ),
        r"\1[secret]",
    ),
    # Without a dot, too, so that a text full of such beginnings is not read to its end for each.
    (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w.-]+)?"), "[secret]"),
    (re.compile(r"\b(?:ya29\.|1//|sk-|xox[abp]-|gh[pousr]_|GOCSPX-|AIza)[\w.-]{8,}"), "[secret]"),
    (re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]++(?:\.[\w-]+)*"), "[address]"),
    (re.compile(r"(?<![\w/+-])(?=[\w/+-]{0,200}\d)[\w/+-]{40,}+={0,2}"), "[secret]"),
)


def redact(text: str) -> str:
    """Return ``text`` with mail addresses, credentials and long opaque strings replaced.

    Takes time linear in the length of ``text``. Not a filter for mail text, which must not get
    into an error message in the first place.
    """
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text
