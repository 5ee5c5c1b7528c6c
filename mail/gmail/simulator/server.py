"""The simulator over HTTP, for clients outside this process and for the real network stack."""

from __future__ import annotations

import logging
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mail.gmail.simulator.answer import Answer, ApiError, Request
from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.faults import AnswerLost

logger = logging.getLogger(__name__)

_MAX_BODY_BYTES = 64 * 1024 * 1024
_SECONDS_PER_IDLE_CONNECTION = 120


class SimulatorServer(ThreadingHTTPServer):
    """Serves one simulator's Gmail, by bearer token, and its OAuth endpoints."""

    daemon_threads = True

    def __init__(self, simulator: GmailSimulator, host: str = "127.0.0.1", port: int = 0) -> None:
        """Bind to the port at once, 0 for any free one; serve_forever answers requests."""
        self.simulator = simulator
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Return the simulator's base URL, for ``api_endpoint``."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"


class _Handler(BaseHTTPRequestHandler):
    """One connection; requests are answered in the order they come."""

    server: SimulatorServer
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS_PER_IDLE_CONNECTION

    def _serve(self) -> None:
        try:
            answer = self._answer()
        except ApiError as error:
            # Close, because the unread rest of this request would be read as the next one.
            self.close_connection = True
            answer = Answer(error.status, error.body(), error.headers)
        except AnswerLost:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != HTTPStatus.NO_CONTENT:
            if "content-type" not in answer.headers:
                self.send_header("content-type", "application/json; charset=UTF-8")
            self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _answer(self) -> Answer:
        body = self._read_body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, body, headers)
        simulator = self.server.simulator
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return simulator.answer_oauth(request) or simulator.answer_with_token(
            request, token if scheme.lower() == "bearer" else ""
        )

    def _read_body(self) -> bytes:
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not length.isdecimal():
            raise ApiError(411, "lengthRequired", "A Content-Length is required.")
        if int(length) > _MAX_BODY_BYTES:
            raise ApiError(413, "uploadTooLarge", "Request Entity Too Large")
        return self.rfile.read(int(length))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        logger.debug(format, *args)
