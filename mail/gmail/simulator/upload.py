"""Uploads: the body is the message alone (`media`), or metadata and message (`multipart`)."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from mail.gmail.simulator.answer import ApiError, Request, invalid_argument
from mail.gmail.simulator.discovery import find_method

_PREFIX = "/upload"


def as_plain_request(request: Request) -> Request:
    """Turn an upload into a plain request with the message in its JSON; return others unchanged.

    Raises:
        ApiError: the method takes no upload, or the body is not one.
    """
    parts = urlsplit(request.uri)
    if not parts.path.startswith(f"{_PREFIX}/gmail/"):
        return request
    path = parts.path.removeprefix(_PREFIX)
    method, _ = find_method(request.verb, path)
    if not method.takes_upload:
        raise ApiError(404, "notFound", "The requested URL was not found on this server.")
    kind = parse_qs(parts.query).get("uploadType", [""])[0]
    if kind == "media":
        body: dict[str, Any] = {}
        raw = request.body
    elif kind == "multipart":
        body, raw = _read_multipart(request)
    else:
        status = HTTPStatus.NOT_IMPLEMENTED if kind == "resumable" else HTTPStatus.BAD_REQUEST
        raise ApiError(status, "badRequest", f"The simulator has no upload of type {kind[:40]!r}")
    encoded = base64.urlsafe_b64encode(raw).decode()
    if method.request_schema == "Draft":
        body["message"] = {**body.get("message", {}), "raw": encoded}
    else:
        body["raw"] = encoded
    uri = urlunsplit(parts._replace(path=path))
    return replace(request, uri=uri, body=json.dumps(body).encode())


def _read_multipart(request: Request) -> tuple[dict[str, Any], bytes]:
    head = Message()
    head["content-type"] = request.headers.get("content-type", "")
    boundary = head.get_boundary("")
    # Split by hand, because the message must stay unchanged to its last line ending.
    pieces = request.body.split(f"--{boundary}".encode())[1:-1] if boundary else []
    if len(pieces) != 2:
        raise invalid_argument("A multipart upload has two parts: the metadata and the message")
    metadata, message = (_content_of(piece) for piece in pieces)
    try:
        body = json.loads(metadata or b"{}")
    except ValueError:
        raise invalid_argument("Invalid JSON payload received. Parse error.") from None
    if not isinstance(body, dict):
        raise invalid_argument("The metadata must be an object")
    return body, message


def _content_of(piece: bytes) -> bytes:
    """Return what follows the part's headers, without the line ending before the next boundary."""
    found = re.match(rb"\r?\n(?:[^\r\n]+\r?\n)*\r?\n", piece)
    return re.sub(rb"\r?\n\Z", b"", piece[found.end() :]) if found else b""
