"""A receiver of webhooks on loopback, which gives the answers that a test sets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request that the receiver got."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)

    def is_signed_with(self, key: str) -> bool:
        """Check the signature as any receiver would, by the published rules."""
        secret = base64.b64decode(key.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode()
        digest = hmac.new(secret, signed + self.body, hashlib.sha256).digest()
        return self.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


@dataclass
class Receiver:
    """The requests received, and the answers still to be given; after those, each answer is 204."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The URL to which webhooks are sent."""
        return f"http://127.0.0.1:{self.port}/hook"

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Give this answer to the next request."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, named, body))


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a receiver on a free port of loopback."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.received.append(Received(self.path, dict(self.headers.items()), body))
            status, headers, answer = found.answers.pop(0) if found.answers else (204, {}, b"")
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
