"""Uploads of a message with metadata beside it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4


def add_metadata(request: Any, metadata: dict[str, Any]) -> None:
    """Turn an upload of the message alone into one of metadata and message.

    Google's library can do that only for messages in ASCII.
    """
    boundary = uuid4().hex
    parts = (("application/json", json.dumps(metadata).encode()), ("message/rfc822", request.body))
    lines = [
        f"--{boundary}\r\nContent-Type: {kind}\r\n\r\n".encode() + content + b"\r\n"
        for kind, content in parts
    ]
    request.body = b"".join([*lines, f"--{boundary}--".encode()])
    request.body_size = len(request.body)
    request.uri = request.uri.replace("uploadType=media", "uploadType=multipart")
    request.headers["content-type"] = f'multipart/related; boundary="{boundary}"'
