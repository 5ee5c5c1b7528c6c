"""Hides secrets and addresses: in error texts before they are stored, in JSON before it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from interfaces.stored_json import presentable
from jobs.errors import Fault
from jobs.payload_validator import MAX_FAULTS

REDACTED_TEXT = "[redacted]"
REDACTED_VALUE = "••••••"
Redactor = Callable[[object], object]

# Without a boundary in front: PGPASSWORD and client_secret end in these words too.
_HIDDEN_NAME = r"(?i:password|passwd|secret|token|api[_-]?key|authorization|private[_-]?key|cookie)"
# Places in a list and numbers of a lease, which open nothing. With a boundary in front: a
# release_token is none of them.
_SHOWN_NAME = (
    r"(?:(?<![^\W_])(?i:page|next|continuation|sync|lease|fencing)"
    r"|(?<=[a-z0-9])(?:Page|Next|Continuation|Sync|Lease|Fencing))[_-]?(?i:token)"
)
_HIDDEN_KEY = re.compile(rf"{_HIDDEN_NAME}\Z")
_SHOWN_KEY = re.compile(rf"{_SHOWN_NAME}\Z")

# Each pattern runs in linear time: no nested repeats. What a group `kept` matches stays.
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
    re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"),
    re.compile(r"(?<=://)[^\s/@:]{1,200}:[^\s/@]{1,200}(?=@)"),
)


def redact(text: str, limit: int) -> str:
    """Return `text` without addresses, keys and tokens, NUL-free and at most `limit` long."""
    text = text[: limit * 4].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    for pattern in _PATTERNS:
        text = pattern.sub(_redacted, text)
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def is_secret_key(key: str) -> bool:
    """Say whether the value of a key with this name is hidden, as it is in error texts.

    That is any name which ends in password, passwd, secret, token, api_key, authorization,
    private_key or cookie: api_token, clientSecret, DB_PASSWORD. page_token, lease_token and their
    like are none. Wider than the exact names (`SECRET_KEYS`) that a payload is refused for: a
    stored job whose type has such a field must still run.
    """
    return bool(_HIDDEN_KEY.search(key)) and not _SHOWN_KEY.search(key)


def redact_secrets(value: object) -> Any:
    """Return JSON data fit to be shown, with the values of secret keys replaced at any depth.

    `is_secret_key` says which keys are.
    """
    return _without_secrets(presentable(value))


def redact_values(value: object) -> Any:
    """Return JSON data with every value replaced: only its structure is shown."""
    return _without_values(presentable(value))


def restore_redacted(edited: Any, original: object) -> Any:
    """Return an edit of `redact_secrets(original)`, with the hidden values put back.

    A placeholder that was moved or typed stays: `redaction_faults` finds it.
    """
    return _put_back(edited, redact_secrets(original), original)


def redaction_faults(value: object) -> list[Fault]:
    """Return a fault for each field that holds the placeholder instead of a value."""
    message = "is the mask that hides a secret: give the secret itself"
    paths = islice(_placeholder_paths(presentable(value), ""), MAX_FAULTS)
    return [Fault(path, "masked", message) for path in paths]


def canonical_json(value: object) -> str:
    """Return JSON text that is equal for equal data only: true is not 1 here."""
    return json.dumps(presentable(value), sort_keys=True)


def _redacted(match: re.Match[str]) -> str:
    return match.groupdict().get("kept") or REDACTED_TEXT


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: REDACTED_VALUE if is_secret_key(key) else _without_secrets(item)
            for key, item in value.items()
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _without_values(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_values(item) for item in value]
    return None if value is None else REDACTED_VALUE


def _placeholder_paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _placeholder_paths(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _placeholder_paths(item, f"{path}[{index}]")
    elif value == REDACTED_VALUE:
        yield path


def _put_back(edited: Any, shown: object, original: Any) -> Any:
    if isinstance(edited, dict) and isinstance(shown, dict):
        return {
            key: _put_back(item, shown[key], original[key])
            if key in shown and key in original
            else item
            for key, item in edited.items()
        }
    if isinstance(edited, list) and isinstance(shown, list) and len(edited) == len(shown):
        entries = set(map(canonical_json, shown))
        return [
            # An entry that was moved here would get its neighbour's secret.
            item
            if canonical_json(item) != canonical_json(here) and canonical_json(item) in entries
            else _put_back(item, here, hidden)
            for item, here, hidden in zip(edited, shown, original, strict=True)
        ]
    return original if canonical_json(edited) == canonical_json(shown) else edited
