"""Gmail's batch endpoint: up to 100 requests in one, each answered as if it had come alone.

They come at the same time, so that of many some are refused, as Gmail does.
"""

from __future__ import annotations

from collections.abc import Callable
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from http import HTTPStatus
from urllib.parse import urlsplit
from uuid import uuid4

from mail.gmail.simulator.answer import Answer, ApiError, Request, invalid_argument

MAX_PARTS = 100
# Beyond this number Gmail refuses parts now and then, the simulator always.
MAX_AT_ONCE = 25


def is_batch(request: Request) -> bool:
    """Say whether the request is one to the batch endpoint."""
    path = urlsplit(request.uri).path
    return request.verb == "POST" and (path == "/batch" or path.startswith("/batch/"))


def answer_batch(request: Request, answer: Callable[[Request], Answer]) -> Answer:
    """Answer each part with `answer`, in order, even if others fail.

    Raises:
        ApiError: 400, the body is no batch, or has too many parts.
    """
    content_type = request.headers.get("content-type", "")
    message = f"content-type: {content_type}\r\n\r\n".encode() + request.body
    parts = BytesParser(policy=HTTP).parsebytes(message).get_payload()
    if not isinstance(parts, list):
        raise invalid_argument("The batch request has no parts")
    if len(parts) > MAX_PARTS:
        raise invalid_argument(f"The batch request exceeds the limit of {MAX_PARTS} parts")
    boundary = f"batch_{uuid4().hex}"
    head = f"--{boundary}\r\n".encode()
    answers = b"".join(
        head + _answer_part(part, answer if number < MAX_AT_ONCE else _refuse) + b"\r\n"
        for number, part in enumerate(parts)
    )
    body = answers + f"--{boundary}--\r\n".encode()
    return Answer(HTTPStatus.OK, body, {"content-type": f'multipart/mixed; boundary="{boundary}"'})


def _refuse(_: Request) -> Answer:
    error = ApiError(429, "rateLimitExceeded", "Too many concurrent requests for user")
    return Answer(error.status, error.body(), error.headers)


def _answer_part(part: object, answer: Callable[[Request], Answer]) -> bytes:
    payload = part.get_payload(decode=True) if isinstance(part, Message) else None
    if not isinstance(part, Message) or not isinstance(payload, bytes):
        raise invalid_argument("A part of the batch request is no request")
    # Clients may end the lines of a part with \n or with \r\n.
    request_line, _, rest = payload.replace(b"\r\n", b"\n").partition(b"\n")
    words = request_line.decode("latin-1").split()
    if len(words) < 2:
        raise invalid_argument("A part of the batch request has no request line")
    inner = BytesParser(policy=HTTP).parsebytes(rest)
    body = inner.get_payload(decode=True)
    answered = answer(
        Request(
            verb=words[0],
            uri=words[1],
            body=body if isinstance(body, bytes) else b"",
            headers={name.lower(): str(value) for name, value in inner.items()},
        )
    )
    status = HTTPStatus(answered.status)
    headers = {"Content-Type": "application/json; charset=UTF-8", **answered.headers}
    content_id = str(part.get("Content-ID", "")).removeprefix("<")
    head = [
        "Content-Type: application/http",
        f"Content-ID: <response-{content_id}",
        "",
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(answered.body)}",
        "",
        "",
    ]
    return "\r\n".join(head).encode() + answered.body
