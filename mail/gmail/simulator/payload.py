"""A parsed message as Gmail's MessagePart tree."""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

from mail.gmail.simulator.mime import Part

_INLINE_LIMIT_BYTES = 1024 * 1024
_ATTACHMENT_PREFIX = "ANGjdJ_"


def message_part(part: Part) -> dict[str, Any]:
    """Return the part and everything below it as a MessagePart of format "full".

    Text without a file name travels inline up to 1 MiB; all else is fetched by attachmentId.
    """
    body: dict[str, Any] = {"size": len(part.content)}
    if _is_inline(part):
        if part.content:
            body["data"] = base64.urlsafe_b64encode(part.content).decode()
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
    """Return the MessagePart of format "metadata": headers alone, all of them when none named."""
    wanted = {name.lower() for name in only}
    headers = [
        header for header in _headers(part) if not wanted or header["name"].lower() in wanted
    ]
    return {"mimeType": part.mime_type, "headers": headers}


def attachment_id(part: Part) -> str:
    """Return the opaque id under which the part's bytes are fetched."""
    return _ATTACHMENT_PREFIX + part.part_id.replace(".", "-")


def find_attachment(root: Part, wanted: str) -> Part | None:
    """Return the part behind an attachment id of this message, None when it gave no such id."""
    return next(
        (part for part in root.walk() if part.content and attachment_id(part) == wanted), None
    )


def _is_inline(part: Part) -> bool:
    return (
        part.mime_type.startswith("text/")
        and not part.is_attachment
        and len(part.content) <= _INLINE_LIMIT_BYTES
    )


def _headers(part: Part) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in part.headers]
