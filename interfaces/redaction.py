"""Hides secrets and addresses in texts: in errors, logs, and the reasons that people give."""

from __future__ import annotations

import re

from interfaces.database_values import DATABASE_VALUES

REDACTED_TEXT = "[redacted]"

# Without a word boundary in front, because PGPASSWORD and client_secret end in these words too.
_HIDDEN_NAME = r"(?i:password|passwd|secret|token|api[_-]?key|authorization|private[_-]?key|cookie)"
# Cursors of lists and numbers of leases are no secrets. With a word boundary in front, because a
# release_token is not a lease_token.
_SHOWN_NAME = (
    r"(?:(?<![^\W_])(?i:page|next|continuation|sync|lease|fencing)"
    r"|(?<=[a-z0-9])(?:Page|Next|Continuation|Sync|Lease|Fencing))[_-]?(?i:token)"
)
_HIDDEN_KEY = re.compile(rf"{_HIDDEN_NAME}\Z")
_SHOWN_KEY = re.compile(rf"{_SHOWN_NAME}\Z")

_ADDRESS = re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")

# Each pattern runs in linear time: no nested repeats. What a group `kept` or
# `before` matches stays.
_PATTERNS = (
    # An encrypted key has headers with single hyphens before its body.
    re.compile(
        r"-----BEGIN [A-Z ]{1,40}-----(?:[^-]|-(?!----)){0,20000}(?:-----END [A-Z ]{1,40}-----)?"
    ),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*"),
    re.compile(r"\bya29\.[A-Za-z0-9._-]{8,}|\b1//[A-Za-z0-9._-]{16,}|\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"),
    re.compile(
        rf"(?P<kept>{_SHOWN_NAME})|{_HIDDEN_NAME}[\"']?"
        r"\s{0,3}[:=]\s{0,3}(?:\"[^\"]{0,2000}\"?|'[^']{0,2000}'?|[^\s\"',;&]{1,2000})"
    ),
    *DATABASE_VALUES,
    _ADDRESS,
    re.compile(r"(?<=://)[^\s/@:]{1,200}:[^\s/@]{1,200}(?=@)"),
)


def redact(text: str, limit: int) -> str:
    """Return `text` without addresses, keys and tokens, NUL-free and at most `limit` long."""
    text = text[: limit * 4].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    for pattern in _PATTERNS:
        text = pattern.sub(_redacted, text)
    text = _storable(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def hide_secrets(text: str) -> str:
    """Return what a person wrote without keys, tokens and passwords, NUL-free; addresses stay."""
    for pattern in _PATTERNS:
        text = text if pattern is _ADDRESS else pattern.sub(_redacted, text)
    return _storable(text)


def _storable(text: str) -> str:
    """Return the text without the characters that no database takes, NUL and lone surrogates."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-8", "replace").decode()


def is_secret_key(key: str) -> bool:
    """Say whether the value of a key with this name is hidden, as it is in error texts.

    That is any name which ends in password, passwd, secret, token, api_key, authorization,
    private_key or cookie: api_token, clientSecret, DB_PASSWORD; but not page_token, lease_token and
    the like. These are more than the exact names (`SECRET_KEYS`) for which a payload is refused,
    because a stored job whose type has such a field must still run.
    """
    return bool(_HIDDEN_KEY.search(key)) and not _SHOWN_KEY.search(key)


def _redacted(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("kept") or (groups.get("before") or "") + REDACTED_TEXT
