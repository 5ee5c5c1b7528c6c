"""What the Gmail tests share: a checked transport and a way to write mail."""

from __future__ import annotations

import base64
import json
from email.message import EmailMessage
from urllib.parse import urlsplit

import httplib2

from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.discovery import answer_validator, find_method
from mail.gmail.simulator.transport import SimulatorHttp

ADDRESS = "ada@harbour.example"


class CheckedHttp(SimulatorHttp):
    """Checks every successful answer against the discovery document's schema."""

    def __init__(self, simulator: GmailSimulator, address: str = ADDRESS) -> None:
        super().__init__(simulator, address)
        self.methods: set[str] = set()

    def request(self, uri, method="GET", body=None, headers=None, **rest):
        response, content = super().request(uri, method, body, headers, **rest)
        if response.status < 300:
            verb = (headers or {}).get("x-http-method-override", method)
            self._check(uri, verb, response, content)
        return response, content

    def _check(self, uri: str, verb: str, response: httplib2.Response, content: bytes) -> None:
        method, _ = find_method(verb, urlsplit(uri).path.removeprefix("/upload"))
        self.methods.add(method.name)
        if method.response_schema is None:
            assert (response.status, content) == (204, b"")
        else:
            answer_validator(method.response_schema).validate(json.loads(content))


def letter(
    subject: str = "Mooring fees",
    text: str = "See you at the quay.",
    *,
    message_id: str = "",
    reply_to: str = "",
    sender: str = "Bob Mast <bob@sail.example>",
    to: str = ADDRESS,
    date: str = "Mon, 03 Mar 2025 10:00:00 +0000",
    attachment: tuple[str, bytes] | None = None,
) -> bytes:
    """Return a plain message as bytes."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = to
    message["Subject"] = subject
    message["Date"] = date
    if message_id:
        message["Message-ID"] = f"<{message_id}>"
    if reply_to:
        message["In-Reply-To"] = message["References"] = f"<{reply_to}>"
    message.set_content(text)
    if attachment:
        name, content = attachment
        message.add_attachment(content, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def encoded(raw: bytes) -> str:
    """Return the bytes in the encoding of Gmail's request bodies."""
    return base64.urlsafe_b64encode(raw).decode()
