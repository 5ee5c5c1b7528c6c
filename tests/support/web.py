"""A web process, started as the documentation says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from django.conf import settings

from tests.support.databases import database_url
from tests.support.paths import ROOT
from tests.support.ports import reserved_port
from tests.support.waiting import wait_until

START_SECONDS = 180.0
# Gunicorn itself kills a worker that has not ended after 30 seconds, such as one still loading.
STOP_SECONDS = 45.0
ANSWER_SECONDS = 180.0


@dataclass(frozen=True)
class Answer:
    """The answer of the web process."""

    status: int
    headers: list[tuple[str, str]]
    body: str

    def values(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(frozen=True)
class WebProcess:
    """A gunicorn on the tests' database."""

    port: int
    process: subprocess.Popen[bytes]

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: str = ""
    ) -> Answer:
        """Send a request as a proxy would; return the answer, and do not follow redirects."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)) as connection:
            connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read().decode("utf-8"))

    def listens(self) -> bool:
        """Say whether the web process accepts connections.

        Raises:
            AssertionError: the process has ended.
        """
        assert self.process.poll() is None, f"gunicorn ended with {self.process.returncode}"
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def web_process(log: Path, *options: str, **environment: str) -> Iterator[WebProcess]:
    """Run gunicorn on a free port inside the block, with `environment` added to the tests'."""
    with reserved_port() as port:
        yield from _serving(port, log, options, environment)


def _serving(
    port: int, log: Path, options: tuple[str, ...], environment: dict[str, str]
) -> Iterator[WebProcess]:
    command = [
        str(Path(sys.executable).with_name("gunicorn")),
        "config.wsgi",
        "--bind",
        f"127.0.0.1:{port}",
        *options,
    ]
    own = {
        "DATABASE_URL": database_url(),
        "LISTEN_DATABASE_URL": settings.LISTEN_DATABASE_URL,
        "VAR_DIR": str(settings.VAR_DIR),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **own, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    web = WebProcess(port, process)
    try:
        wait_until(web.listens, "gunicorn accepts connections", timeout=START_SECONDS)
        yield web
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
