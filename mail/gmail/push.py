"""Check that a push comes from Google, and read Gmail's notification in it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from google.auth.exceptions import GoogleAuthError

from interfaces.strict_json import without_repeats
from jobs.registry.declaration import is_name

ISSUERS = frozenset({"https://accounts.google.com", "accounts.google.com"})
ALGORITHM = "RS256"
MAX_TOKEN_LENGTH = 8192
MAX_ADDRESS_LENGTH = 320
MAX_ID_LENGTH = 64
MAX_HISTORY_ID = 2**63 - 1
# The tolerated difference between Google's clock and this machine's.
CLOCK_SKEW_SECONDS = 10


class PushRefused(Exception):
    """The request is not from the subscription's service account; `reason` is the failed check."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PushMalformed(Exception):
    """The body is not a Gmail notification; `field` is the part of it that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Certificates(Protocol):
    """Google's certificates; each token names one by its key id."""

    def find(self, key_id: str) -> str | None:
        """Return the certificate as PEM text, None where Google has none of this id.

        Raises:
            GmailUnavailable: the certificates could not be fetched.
        """
        ...


@dataclass(frozen=True)
class Subscription:
    """The audience and the service account that the push subscription's tokens must name."""

    audience: str
    service_account: str


@dataclass(frozen=True)
class Notification:
    """One Pub/Sub message: the mailbox has changed, and `history_id` is its newest history id."""

    address: str
    history_id: int
    message_id: str


def check_token(token: str, certificates: Certificates, expected: Subscription) -> None:
    """Check that Google signed the token for this subscription, and that it is valid now.

    Raises:
        PushRefused: Google did not sign it, it is for another subscription, or is not valid now.
        GmailUnavailable: Google's certificates could not be fetched.
    """
    if not expected.audience or not expected.service_account:
        raise PushRefused("not_configured")
    if not token or len(token) > MAX_TOKEN_LENGTH:
        raise PushRefused("token_missing")
    claims = _verified_claims(token, certificates, expected.audience)
    if claims.get("iss") not in ISSUERS:
        raise PushRefused("wrong_issuer")
    if claims.get("email") != expected.service_account or claims.get("email_verified") is not True:
        raise PushRefused("wrong_service_account")


def _verified_claims(token: str, certificates: Certificates, audience: str) -> Mapping[str, Any]:
    # Imported with the first notification, because workers verify none.
    from google.auth import jwt

    unreadable = (ValueError, TypeError, OverflowError, RecursionError, GoogleAuthError)
    try:
        header = jwt.decode_header(token)  # type: ignore[no-untyped-call]  # google.auth has few types
        key_id = header.get("kid")
    except unreadable as error:
        raise PushRefused("token_unreadable") from error
    if header.get("alg") != ALGORITHM or not isinstance(key_id, str):
        raise PushRefused("wrong_algorithm")
    certificate = certificates.find(key_id)
    if certificate is None:
        raise PushRefused("unknown_key")
    try:
        claims: Mapping[str, Any] = jwt.decode(  # type: ignore[no-untyped-call]  # as above
            token,
            certs={key_id: certificate},
            audience=audience,
            clock_skew_in_seconds=CLOCK_SKEW_SECONDS,
        )
    except unreadable as error:
        raise PushRefused("token_invalid") from error
    return claims


def read_notification(body: bytes) -> Notification:
    """Return what Pub/Sub's request says.

    Raises:
        PushMalformed: the body is not what Gmail publishes.
    """
    envelope = _json_object(body, "body")
    message = envelope.get("message")
    if not isinstance(message, dict):
        raise PushMalformed("message", "must be an object")
    message_id = message.get("messageId", message.get("message_id"))
    if not isinstance(message_id, str) or not is_name(message_id, MAX_ID_LENGTH):
        raise PushMalformed("message.messageId", f"must have 1 to {MAX_ID_LENGTH} characters")
    data = _json_object(_decoded(message.get("data")), "message.data")
    return Notification(_address(data), _history_id(data), message_id)


def _json_object(text: bytes, field: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError):
        raise PushMalformed(field, "must be JSON") from None
    if not isinstance(value, dict):
        raise PushMalformed(field, "must be an object")
    return value


def _decoded(data: object) -> bytes:
    """Return the bytes behind base64 in either alphabet, padded or not."""
    if not isinstance(data, str):
        raise PushMalformed("message.data", "must be base64")
    letters = data.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise PushMalformed("message.data", "must be base64") from None


def _address(data: Mapping[str, Any]) -> str:
    address = data.get("emailAddress")
    if not isinstance(address, str) or not is_name(address, MAX_ADDRESS_LENGTH):
        raise PushMalformed("message.data.emailAddress", "must be a mail address")
    return address.strip().lower()


def _history_id(data: Mapping[str, Any]) -> int:
    given = data.get("historyId")
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 20:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= MAX_HISTORY_ID:
        raise PushMalformed("message.data.historyId", "must be a whole number above 0")
    return given
