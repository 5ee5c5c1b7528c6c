"""Google's generated Gmail service, built from the document shipped with the library.

Building it takes about 2 ms and descending to ``users().messages()`` another 1.5 ms each time,
against 30 µs for a request on a kept resource: so the resources are built once per process. They
hold no connection; every request is executed over an Http of the calling thread.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import httplib2
from googleapiclient.discovery import build_from_document
from googleapiclient.discovery_cache import get_static_doc

GMAIL_ENDPOINT = "https://gmail.googleapis.com"

# The generated resources have no types of their own.
Resource = Any


class Http(Protocol):
    """What a request is sent through: httplib2.Http, AuthorizedHttp or the simulator's."""

    def request(self, uri: str, method: str = ..., *args: Any, **kwargs: Any) -> Any:
        """Send one request and return (response, content)."""
        ...


@dataclass(frozen=True, slots=True)
class Resources:
    """The generated resources the product uses."""

    users: Resource
    messages: Resource
    attachments: Resource
    threads: Resource
    labels: Resource
    history: Resource
    drafts: Resource
    send_as: Resource
    batch_uri: str


@functools.cache
def gmail_resources(endpoint: str | None = None) -> Resources:
    """Return the resources for Gmail itself, or for a simulator served at ``endpoint``."""
    document = json.loads(get_static_doc("gmail", "v1") or "")
    if endpoint:
        # The option for another endpoint leaves uploads at Gmail's own.
        document["rootUrl"] = f"{endpoint.rstrip('/')}/"
    service = build_from_document(document, http=httplib2.Http())
    users = service.users()
    messages = users.messages()
    return Resources(
        users=users,
        messages=messages,
        attachments=messages.attachments(),
        threads=users.threads(),
        labels=users.labels(),
        history=users.history(),
        drafts=users.drafts(),
        send_as=users.settings().sendAs(),
        # Google's own new_batch_http_request always uses Gmail's address, whatever the endpoint.
        batch_uri=f"{(endpoint or GMAIL_ENDPOINT).rstrip('/')}/batch/gmail/v1",
    )


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
