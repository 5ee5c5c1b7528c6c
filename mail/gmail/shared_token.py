"""Credentials whose access token is kept elsewhere, where several processes share it."""

from __future__ import annotations

from typing import Protocol

from google.auth.credentials import Credentials
from google.auth.transport import Request

from mail.gmail.oauth import AccessToken


class TokenSource(Protocol):
    """Keeps an account's access token."""

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
