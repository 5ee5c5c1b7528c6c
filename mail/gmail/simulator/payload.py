"""A parsed message as Gmail's MessagePart tree."""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Collection
from typing import Any

from mail.gmail.simulator.api_error import invalid_argument
from mail.gmail.simulator.mime import Part

_INLINE_LIMIT_BYTES = 1024 * 1024
# As at Gmail, an attachment id is another one at each reading, and expires.
ATTACHMENT_SECONDS = 3600
_ATTACHMENT_ID = re.compile(r"ANGjdJ_([0-9-]{0,200})_(\d{1,12})_[A-Za-z0-9]{16}")


def message_part(part: Part) -> dict[str, Any]:
    """Return the part and everything below it as a MessagePart of format "full".

    Text without a file name travels inline up to 1 MiB; all else is fetched by attachmentId.
    """
    body: dict[str, Any] = {"size": len(part.content)}
    if _is_inline(part):
        if part.content:
            text = part.in_utf_8()
            body = {"size": len(text), "data": base64.urlsafe_b64encode(text).decode()}
    elif part.content:
        body["attachmentId"] = attachment_id(part)
    answer: dict[str, Any] = {
        "partId": part.part_id,
        "mimeType": part.mime_type,
        "filename": part.filename,
        "headers": _headers(part),
        "body": body,
    }
    if part.children:
        answer["parts"] = [message_part(child) for child in part.children]
    return answer


def header_part(part: Part, only: Collection[str]) -> dict[str, Any]:
    """Return the MessagePart of format "metadata": only headers, all of them if none are named."""
    wanted = {name.lower() for name in only}
    headers = [
        header for header in _headers(part) if not wanted or header["name"].lower() in wanted
    ]
    return {"mimeType": part.mime_type, "headers": headers}


def attachment_id(part: Part) -> str:
    """Return a new opaque id under which the part's bytes are fetched for a time."""
    place = part.part_id.replace(".", "-")
    return f"ANGjdJ_{place}_{int(time.time())}_{secrets.token_hex(8)}"


def find_attachment(root: Part, wanted: str) -> Part | None:
    """Return the part behind an attachment id of this message, None when it gave no such id.

    Raises:
        ApiError: 400, the id has expired.
    """
    known = _ATTACHMENT_ID.fullmatch(wanted)
    if known is None:
        return None
    if time.time() - int(known[2]) > ATTACHMENT_SECONDS:
        raise invalid_argument("Invalid attachment token")
    place = known[1].replace("-", ".")
    return next((one for one in root.walk() if one.content and one.part_id == place), None)


def _is_inline(part: Part) -> bool:
    return (
        part.mime_type.startswith("text/")
        and not part.is_attachment
        and len(part.content) <= _INLINE_LIMIT_BYTES
    )


def _headers(part: Part) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in part.headers]
