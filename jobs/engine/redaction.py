"""Takes addresses and secrets out of error texts before they are stored or logged."""

from __future__ import annotations

import re

PLACE = "[redacted]"

# Each pattern runs in linear time: no nested repeats.
_PATTERNS = (
    # An encrypted key has headers with single hyphens before its body.
    re.compile(
        r"-----BEGIN [A-Z ]{1,40}-----(?:[^-]|-(?!----)){0,20000}(?:-----END [A-Z ]{1,40}-----)?"
    ),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*"),
    re.compile(r"\bya29\.[A-Za-z0-9._-]{8,}|\b1//[A-Za-z0-9._-]{16,}|\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"),
    # Without a boundary in front: DB_PASSWORD and client_secret end in these words too.
    re.compile(
        r"(?i)(?:password|passwd|secret|token|api[_-]?key|authorization|private_key|cookie)[\"']?"
        r"\s{0,3}[:=]\s{0,3}(?:\"[^\"]{0,2000}\"?|'[^']{0,2000}'?|[^\s\"',;&]{1,2000})"
    ),
    re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"),
    re.compile(r"(?<=://)[^\s/@:]{1,200}:[^\s/@]{1,200}(?=@)"),
)


def redact(text: str, limit: int) -> str:
    """Return `text` without addresses, keys and tokens, NUL-free and at most `limit` long."""
    text = text[: limit * 4].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    for pattern in _PATTERNS:
        text = pattern.sub(PLACE, text)
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"
