"""Functions that return a GmailClient: over the local simulator in this process, or over HTTP."""

from __future__ import annotations

import functools
import http.client
import threading
from pathlib import Path
from typing import Any, Protocol

import httplib2
from google.auth.credentials import Credentials
from google.auth.transport import Request
from google_auth_httplib2 import AuthorizedHttp

from mail.gmail.client import GmailClient
from mail.gmail.oauth import AccessToken
from mail.gmail.service import gmail_resources
from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.transport import SimulatorHttp

# How long a worker's thread waits for the next byte of an answer, doing nothing else.
_TIMEOUT_SECONDS = 20

_connections = threading.local()
_SAFE_TO_REPEAT = frozenset({"GET", "HEAD"})


def simulator_client(address: str, store_path: Path | str) -> GmailClient:
    """Return a client of a mailbox in the local simulator's file; both are created if missing."""
    simulator = local_gmail(Path(store_path))
    return GmailClient(lambda: SimulatorHttp(simulator, address))


@functools.lru_cache(maxsize=32)
def local_gmail(store_path: Path) -> GmailSimulator:
    """Return this process's simulator over a file, opened once."""
    return GmailSimulator(store_path)


class TokenSource(Protocol):
    """Keeps an account's access token, where several processes share it."""

    def fresh(self, refused: str | None) -> AccessToken:
        """Return a token that is valid for some minutes and is not `refused`.

        Raises:
            GmailError: no token could be obtained.
        """
        ...


class SharedCredentials(Credentials):
    """Asks its source for a token at the first request, shortly before expiry, and after a 401."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # google.auth has few types
        self._source = source

    def refresh(self, request: Request) -> None:
        """Replace the token by the source's."""
        token = self._source.fresh(self.token)
        self.token = token.value
        # Google's library compares with UTC times without a zone.
        self.expiry = token.expires_at and token.expires_at.replace(tzinfo=None)


def google_client(tokens: TokenSource, *, endpoint: str = "") -> GmailClient:
    """Return a client of the mailbox that these tokens open, at Google or at `endpoint`.

    Each thread keeps its connection to Gmail from one client to the next.
    """
    credentials = SharedCredentials(tokens)
    return GmailClient(
        # After a 401, fetch one new access token; if Gmail refuses that, too, the job is retried
        # later.
        lambda: AuthorizedHttp(credentials, http=_connection_of_thread(), max_refresh_attempts=1),
        resources=gmail_resources(endpoint or None),
    )


def _connection_of_thread() -> SendOnceHttp:
    if not hasattr(_connections, "http"):
        _connections.http = SendOnceHttp(timeout=_TIMEOUT_SECONDS)
    http: SendOnceHttp = _connections.http
    return http


class _SendOnce(http.client.HTTPConnection):
    """Turns the lost answer to a write into an error that httplib2 does not retry."""

    _method = ""

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        self._method = method
        super().request(method, url, *args, **kwargs)

    def getresponse(self) -> http.client.HTTPResponse:
        try:
            return super().getresponse()
        except (http.client.BadStatusLine, http.client.ResponseNotReady) as error:
            if self._method in _SAFE_TO_REPEAT:
                raise
            raise ConnectionResetError("closed before the answer to a write") from error


class SendOnceHTTPConnection(_SendOnce, httplib2.HTTPConnectionWithTimeout):  # type: ignore[misc]  # httplib2 has no types
    """For http: addresses."""


class SendOnceHTTPSConnection(_SendOnce, httplib2.HTTPSConnectionWithTimeout):  # type: ignore[misc]  # httplib2 has no types
    """For https: addresses."""


class SendOnceHttp(httplib2.Http):  # type: ignore[misc]  # httplib2 has no types
    """An httplib2.Http over connections that never repeat a write.

    httplib2 itself repeats a request, even a write, when a server closes the connection without an
    answer. If the first one took effect, a mail would be sent twice.
    """

    def request(self, uri: str, *args: Any, **kwargs: Any) -> tuple[httplib2.Response, bytes]:
        """Send one request, as httplib2.Http.request does."""
        kwargs["connection_type"] = (
            SendOnceHTTPSConnection if uri.startswith("https:") else SendOnceHTTPConnection
        )
        answer: tuple[httplib2.Response, bytes] = super().request(uri, *args, **kwargs)
        return answer
