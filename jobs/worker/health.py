"""A worker's own `/healthz`, `/readyz` and `/metrics` over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jobs.execution.metrics import begin_at_zero

try:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
except ImportError:
    generate_latest = None  # type: ignore[assignment]  # the extra `metrics` brings it


def serve_health(host: str, port: int, ready: Callable[[], bool]) -> ThreadingHTTPServer:
    """Serve on a thread of its own and return the server; `port` 0 means any free one.

    `/healthz` answers while the process lives; `/readyz` answers 503 while `ready()` is False.

    Raises:
        OSError: the address is in use or not this machine's.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = _answer(self.path.partition("?")[0], ready)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        # As load balancers and `wget --spider` ask.
        do_HEAD = do_GET  # noqa: N815 - the name that the base class looks for

        def log_message(self, *_: object) -> None:
            """Log nothing: probes come every few seconds."""

    server = ThreadingHTTPServer((host, port), Handler)
    begin_at_zero()
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


def _answer(path: str, ready: Callable[[], bool]) -> tuple[HTTPStatus, str, bytes]:
    text = "text/plain; charset=utf-8"
    if path == "/healthz":
        return HTTPStatus.OK, text, b"ok\n"
    if path == "/readyz":
        if ready():
            return HTTPStatus.OK, text, b"ready\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, text, b"the lease is not held\n"
    if path == "/metrics" and generate_latest is not None:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest()
    if path == "/metrics":
        return HTTPStatus.NOT_FOUND, text, b"no metrics: install mailroom-jobs[metrics]\n"
    return HTTPStatus.NOT_FOUND, text, b"not found\n"
