"""Turns an exception into a stored failure: redacted, cut to size, with a fingerprint."""

from __future__ import annotations

import hashlib
import re
import traceback

from jobs.engine.outcomes import Failure
from jobs.engine.redaction import redact

MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 16_000

# Ids, numbers and quoted values differ between two occurrences of the same failure.
_VARIABLE = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\b\w*\d\w*(?:\.\d+)?|'[^']*'|\"[^\"]*\"")


def failure_of(error: BaseException, job_type: str) -> Failure:
    """Describe `error`, raised by a handler of `job_type`."""
    error_class = class_path(error)
    message = redact(_text(error), MESSAGE_LIMIT)
    return Failure(
        error_class=error_class,
        message=message,
        traceback=redact(_ends(_formatted(error)), TRACEBACK_LIMIT),
        fingerprint=fingerprint(job_type, error_class, _location(error), message),
    )


def class_path(error: BaseException) -> str:
    """Return the name of the error's class: of built-ins the bare one, of others with the module."""
    kind = type(error)
    path = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return path[:200]


def fingerprint(job_type: str, error_class: str, location: str, message: str) -> str:
    """Return 16 hex digits: the same for the same failure, whatever ids and numbers it names."""
    constant = _VARIABLE.sub("#", message)
    text = "\n".join((job_type, error_class, location, constant))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure itself
        return "the error has no readable message"


def _formatted(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure itself
        return "".join(traceback.format_tb(error.__traceback__))


def _ends(text: str) -> str:
    """Keep the beginning of a long traceback and, above all, its end."""
    if len(text) <= TRACEBACK_LIMIT - 100:
        return text
    head = TRACEBACK_LIMIT // 4
    tail = TRACEBACK_LIMIT - head - 200
    return f"{text[:head]}\n… {len(text) - head - tail} characters left out …\n{text[-tail:]}"


def _location(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].name}" if frames else ""
