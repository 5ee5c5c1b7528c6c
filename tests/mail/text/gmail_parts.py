"""Builds Gmail message resources by hand, in the API's form."""

from __future__ import annotations

import base64
from typing import Any


def part(
    mime_type: str = "text/plain",
    data: bytes = b"",
    *parts: dict[str, Any],
    part_id: str = "",
    filename: str = "",
    attachment_id: str = "",
    **headers: str,
) -> dict[str, Any]:
    """Return one MessagePart; header names are given with underscores for dashes."""
    body: dict[str, Any] = {"size": len(data)}
    if attachment_id:
        body["attachmentId"] = attachment_id
    elif data:
        body["data"] = base64.urlsafe_b64encode(data).decode().rstrip("=")
    fields = [{"name": name.replace("_", "-"), "value": value} for name, value in headers.items()]
    return {
        "partId": part_id,
        "mimeType": mime_type,
        "filename": filename,
        "headers": fields,
        "body": body,
        "parts": list(parts),
    }


def message(payload: object) -> dict[str, Any]:
    """Return a message resource of format ``full``."""
    return {"id": "18c0ffee00000001", "threadId": "18c0ffee00000001", "payload": payload}
