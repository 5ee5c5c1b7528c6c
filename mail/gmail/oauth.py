"""Google's OAuth: scopes, the consent page, tokens for its code, new access tokens, revocation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import google_auth_httplib2
import httplib2
from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials

from mail.gmail.errors import (
    TRANSLATED,
    UNREADABLE,
    GmailUnavailable,
    answered_code,
    oauth_code,
    refused_grant,
    translate,
)

TIMEOUT_SECONDS = 20
REQUIRED_SCOPES: Final[dict[str, str]] = {
    "https://www.googleapis.com/auth/gmail.modify": (
        "Read mail and its changes, put labels on it, archive it, move it to the trash and back, "
        "write drafts and send what you approve, and read the addresses you write from. It cannot "
        "delete mail for good, nor change Gmail's settings."
    ),
}
"""Each scope, with what Mailroom does with it."""
FULL_SCOPE: Final = "https://mail.google.com/"
"""The scope that deleting for good needs. Mailroom does not ask for it, but may be granted it."""

if TYPE_CHECKING:
    from google_auth_oauthlib.flow import Flow


@dataclass(frozen=True, repr=False)
class OAuthClient:
    """This service's OAuth client at Google, and the addresses of Google's endpoints."""

    client_id: str
    client_secret: str
    auth_uri: str = "https://accounts.google.com/o/oauth2/v2/auth"
    token_uri: str = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
    revoke_uri: str = "https://oauth2.googleapis.com/revoke"


@dataclass(frozen=True, repr=False)
class AccessToken:
    """A token that gives access to the mailbox for about an hour."""

    value: str
    expires_at: datetime | None


@dataclass(frozen=True, repr=False)
class Grant:
    """A person's consent."""

    refresh_token: str
    """Empty if Google sent none; without prompt=consent it sends one only at the first consent."""
    access: AccessToken
    scopes: frozenset[str]
    """The scopes that the person granted, which may be fewer than were asked for."""


@dataclass(frozen=True, repr=False)
class ConsentRequest:
    """The consent page's address, and the two secrets to keep until the code is exchanged."""

    url: str
    state: str
    code_verifier: str


def request_consent(
    client: OAuthClient, redirect_uri: str, scopes: list[str], *, address: str = ""
) -> ConsentRequest:
    """Return the consent page's address; `address` preselects an account there."""
    flow = _flow(client, redirect_uri, scopes)
    hint = {"login_hint": address} if address else {}
    # Without prompt=consent Google gives no refresh token to somebody who consented before.
    url, state = flow.authorization_url(access_type="offline", prompt="consent", **hint)
    return ConsentRequest(url, state, flow.code_verifier)


def exchange_code(client: OAuthClient, redirect_uri: str, code: str, code_verifier: str) -> Grant:
    """Exchange the consent page's code for the grant.

    Raises:
        GmailError: Google refused the code, or did not answer.
    """
    # No scopes are given, because the library raises an error if the person granted fewer.
    flow = _flow(client, redirect_uri, None, code_verifier=code_verifier)
    with _translated():
        token = flow.fetch_token(code=code, include_client_id=True, timeout=TIMEOUT_SECONDS)
    scopes = token.get("scope", "")
    return Grant(
        refresh_token=token.get("refresh_token", ""),
        access=AccessToken(token["access_token"], _moment(token.get("expires_at"))),
        scopes=frozenset(scopes.split() if isinstance(scopes, str) else scopes),
    )


def refresh(client: OAuthClient, refresh_token: str) -> tuple[AccessToken, str]:
    """Return a new access token, and the refresh token to keep from now on.

    Raises:
        GmailNeedsReauth: the refresh token is no longer good.
        GmailMisconfigured: the client's id or secret is wrong.
        GmailUnavailable: Google did not answer properly.
    """
    credentials = Credentials(  # type: ignore[no-untyped-call]  # google.auth has few types
        None,
        refresh_token=refresh_token,
        token_uri=client.token_uri,
        client_id=client.client_id,
        client_secret=client.client_secret,
    )
    with _translated():
        endpoint = _TokenEndpoint()
        try:
            credentials.refresh(endpoint)  # type: ignore[no-untyped-call]  # as above
        except TypeError:
            # The library takes every answer with status 200 for a JSON object.
            raise GmailUnavailable(reason=UNREADABLE) from None
        except RefreshError as error:
            if error.retryable:
                raise
            code = oauth_code(error) or endpoint.refusal
            # A page in place of Google's answer must not count as a refusal.
            if not code:
                raise GmailUnavailable(reason=UNREADABLE) from None
            raise refused_grant(code) from None
    expiry = credentials.expiry
    expires_at = None if expiry is None else expiry.replace(tzinfo=UTC)
    access = AccessToken(str(credentials.token), expires_at)
    return access, credentials.refresh_token or refresh_token


def revoke(client: OAuthClient, token: str) -> None:
    """Revoke the grant behind a token; a token that Google does not know counts as revoked.

    Raises:
        GmailUnavailable: Google neither revoked it nor answered that it does not know the token
            (400), so the grant may still be valid.
    """
    with _translated():
        response, content = httplib2.Http(timeout=TIMEOUT_SECONDS).request(
            client.revoke_uri,
            "POST",
            body=urlencode({"token": token}),
            headers={"content-type": "application/x-www-form-urlencoded"},
        )
    if not _is_revoked(response, content):
        raise GmailUnavailable(status=response.status)


def _is_revoked(response: httplib2.Response, content: bytes) -> bool:
    """Say whether Google has revoked the token or does not know it, and not a proxy's page."""
    if response.status == HTTPStatus.OK:
        return not response.get("content-type", "").startswith("text/html")
    return response.status == HTTPStatus.BAD_REQUEST and b"invalid_token" in content


def _flow(
    client: OAuthClient, redirect_uri: str, scopes: list[str] | None, *, code_verifier: str = ""
) -> Flow:
    # Imported here, because it loads a second HTTP client that only the consent page needs.
    from google_auth_oauthlib.flow import Flow

    config = {
        "client_id": client.client_id,
        "client_secret": client.client_secret,
        "auth_uri": client.auth_uri,
        "token_uri": client.token_uri,
    }
    return Flow.from_client_config(
        {"web": config},
        scopes=scopes,
        redirect_uri=redirect_uri,
        code_verifier=code_verifier or None,
    )


class _TokenEndpoint:
    """Sends the library's requests, and keeps the error code of the last answer.

    Where a Workspace requires a new sign-in after some hours (`invalid_rapt`), the library's error
    has nothing of Google's answer. Source: https://support.google.com/a/answer/9368756
    """

    def __init__(self) -> None:
        self._send = google_auth_httplib2.Request(httplib2.Http(timeout=TIMEOUT_SECONDS))
        self.refusal = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        response = self._send(*args, **kwargs)
        self.refusal = answered_code(response.data)
        return response


@contextmanager
def _translated() -> Iterator[None]:
    """Raise a GmailError, which holds no token, in place of what the libraries raise."""
    from oauthlib.oauth2 import OAuth2Error

    try:
        yield
    except TRANSLATED as error:
        # requests' RequestException is an OSError, so TRANSLATED includes it.
        raise translate(error) from None
    except OAuth2Error as error:
        raise refused_grant(error.error or type(error).__name__) from None


def _moment(timestamp: float | None) -> datetime | None:
    return None if timestamp is None else datetime.fromtimestamp(timestamp, UTC)
