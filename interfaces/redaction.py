"""Hides secrets and addresses in texts: in errors, logs, and the reasons that people give."""

from __future__ import annotations

import re

from interfaces.database_values import DATABASE_VALUES

REDACTED_TEXT = "[redacted]"
MOST_QUOTED = 100

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

# Texts, in lower case, without one of which a pattern matches nothing, and the pattern. Looking for
# the texts takes a hundredth of the time. No text: the pattern itself begins with one. Each pattern
# runs in linear time: no nested repeats. What a group `kept` or `before` matches stays.
_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    # An encrypted key has headers with single hyphens before its body.
    (
        ("-----begin ",),
        re.compile(
            r"-----BEGIN [A-Z ]{1,40}-----"
            r"(?:[^-]|-(?!----)){0,20000}(?:-----END [A-Z ]{1,40}-----)?"
        ),
    ),
    (("bearer", "basic"), re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}")),
    (
        ("eyj",),
        # What is no token is matched as well, and stays: otherwise a long text with many such
        # beginnings would be read to its end for each of them.
        re.compile(
            r"\b(?:eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{2,}+\.[A-Za-z0-9_-]*"
            r"|(?P<kept>eyJ[A-Za-z0-9_-]{8,}))"
        ),
    ),
    (
        ("ya29.", "1//", "aiza", "gocspx-"),
        re.compile(
            r"\bya29\.[A-Za-z0-9._-]{8,}|\b1//[A-Za-z0-9._-]{16,}|\bAIza[A-Za-z0-9_-]{20,}"
            r"|\bGOCSPX-[A-Za-z0-9_-]{8,}"
        ),
    ),
    (("sk-", "pk-", "rk-"), re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}")),
    (
        (
            *("password", "passwd", "secret", "token", "authorization", "cookie"),
            *("apikey", "api_key", "api-key", "privatekey", "private_key", "private-key"),
        ),
        re.compile(
            rf"(?P<kept>{_SHOWN_NAME})|{_HIDDEN_NAME}[\"']?"
            r"\s{0,3}[:=]\s{0,3}(?:\"[^\"]{0,2000}\"?|'[^']{0,2000}'?|[^\s\"',;&]{1,2000})"
        ),
    ),
    *(((), pattern) for pattern in DATABASE_VALUES),
    (("@",), _ADDRESS),
    (("@",), re.compile(r"(?<=://)[^\s/@:]{1,200}:[^\s/@]{1,200}(?=@)")),
)
# The characters that a pattern which ignores case takes for an ASCII letter, besides those that
# lower() makes one: the dotless i, the long s, and the dot that lower() leaves of a dotted I.
_AS_LETTERS = {0x131: "i", 0x17F: "s", 0x307: None}


def redact(text: str, limit: int) -> str:
    """Return `text` without addresses, keys and tokens, NUL-free and at most `limit` long."""
    text = text[: limit * 4].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    for pattern in _patterns_for(text):
        text = pattern.sub(_redacted, text)
    text = _storable(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quotable(text: str) -> str:
    """Return the beginning of a text that a caller gave, as a message can quote it."""
    return _storable(text[:MOST_QUOTED])


def hide_secrets(text: str) -> str:
    """Return what a person wrote without keys, tokens and passwords, NUL-free; addresses stay."""
    for pattern in _patterns_for(text):
        text = text if pattern is _ADDRESS else pattern.sub(_redacted, text)
    return _storable(text)


def _patterns_for(text: str) -> list[re.Pattern[str]]:
    """Return the patterns that may match something in this text."""
    lower = text.lower() if text.isascii() else text.lower().translate(_AS_LETTERS)
    found = []
    for texts, pattern in _PATTERNS:
        if not texts:
            found.append(pattern)
            continue
        for one in texts:
            if one in lower:
                found.append(pattern)
                break
    return found


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
