"""HTTP connections that send a write once and never again.

httplib2 silently repeats a request, even a write, when a server closes the connection without an
answer. If the first one took effect, a mail would be sent twice.
"""

from __future__ import annotations

import http.client
from typing import Any

import httplib2

_SAFE_TO_REPEAT = frozenset({"GET", "HEAD"})


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
    """An httplib2.Http over connections that never repeat a write."""

    def request(self, uri: str, *args: Any, **kwargs: Any) -> tuple[httplib2.Response, bytes]:
        """Send one request, as httplib2.Http.request does."""
        kwargs["connection_type"] = (
            SendOnceHTTPSConnection if uri.startswith("https:") else SendOnceHTTPConnection
        )
        answer: tuple[httplib2.Response, bytes] = super().request(uri, *args, **kwargs)
        return answer
