"""Sends webhooks, signed as https://www.standardwebhooks.com describes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from random import SystemRandom
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from jobs.errors import Cancel, Fatal, Retryable
from jobs.execution.context import JobContext
from jobs.models import Delivery, NotificationEndpoint
from jobs.operations.notifications.addresses import (
    PORTS,
    AddressRefused,
    WebhookURL,
    parse_url,
    vetted_addresses,
)
from jobs.operations.notifications.deliveries import (
    NOTIFICATION_RETRY,
    delivered_by,
    find_endpoint,
    recorded,
)
from jobs.states import Channel
from tenants.encryption import decrypt_field

# To connect, to send, and for each read of the answer; the job's timeout limits the whole.
TIMEOUT_SECONDS = 10.0
KEY_PREFIX = "whsec_"
LONGEST_RETRY_AFTER_SECONDS = 86_400.0
# The longest message that Discord accepts.
MAX_DISCORD_LENGTH = 2000
# After these attempts a job waits at least as long as without Retry-After: if an endpoint always
# asked for one second, ten attempts would outlast no outage.
OBEYED_ATTEMPTS = 5
# Refusals after which a later attempt may succeed.
_TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


def new_signing_key() -> str:
    """Return a random key, in the form that receivers' libraries expect."""
    return KEY_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(key: str, webhook_id: UUID, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    digest = hmac.new(base64.b64decode(key.removeprefix(KEY_PREFIX)), signed, hashlib.sha256)
    return f"v1,{base64.b64encode(digest.digest()).decode()}"


def send_webhook(
    ctx: JobContext, endpoint_id: UUID, event: str, data: Mapping[str, Any]
) -> dict[str, Any]:
    """Send one webhook and record it; return the job's result.

    The id and the body are the same in each attempt of the job, so that a receiver recognises a
    webhook that is sent again after a crash.

    Raises:
        Fatal: the endpoint refuses it, or may not be sent to.
        Retryable: the endpoint cannot be reached, or asks for a later attempt.
        Cancel: the endpoint was removed or disabled.
    """
    endpoint = find_endpoint(ctx.firm_id, endpoint_id)
    if endpoint is None or not endpoint.enabled:
        raise Cancel("the endpoint was removed or is disabled")
    if endpoint.channel == Channel.DISCORD:
        return send_discord(ctx, endpoint.target, str(data.get("text", "")), event, endpoint)
    if endpoint.channel != Channel.WEBHOOK:
        raise Fatal("the endpoint takes no webhooks")
    sent_at = datetime.fromtimestamp((ctx.job_id.int >> 80) / 1000, UTC)
    envelope = {"type": event, "timestamp": sent_at.isoformat(), "data": dict(data)}
    body = json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Mailroom",
        "webhook-id": str(ctx.job_id),
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(
            decrypt_field(endpoint, "signing_key"), ctx.job_id, timestamp, body
        ),
    }
    with recorded(ctx, Channel.WEBHOOK, endpoint.recipient, event=event, endpoint=endpoint) as row:
        _send(f"endpoint {endpoint.name!r}", endpoint.target, row, body, headers)
    return {"status_code": row.status_code}


def send_discord(
    ctx: JobContext,
    url: str,
    message: str | Mapping[str, Any],
    event: str,
    endpoint: NotificationEndpoint | None = None,
    *,
    trusted: bool = False,
) -> dict[str, Any]:
    """Post a text, or a message in the form of Discord's API, to a Discord webhook, and record it.

    A `trusted` URL comes from a setting and may lead to any address. Returns the job's result.

    Raises:
        Fatal, Retryable: as `send_webhook`.
    """
    if isinstance(message, str):
        message = {"content": message[:MAX_DISCORD_LENGTH], "allowed_mentions": {"parse": []}}
    headers = {"Content-Type": "application/json", "User-Agent": "Mailroom"}
    body = json.dumps(message).encode()
    parts = urlsplit(url)
    # The path is a secret, because anybody who knows it can post.
    recipient = f"{parts.scheme}://{parts.netloc}"
    name = "Discord" if endpoint is None else f"endpoint {endpoint.name!r}"
    for delivery in delivered_by(ctx, Channel.DISCORD):
        if delivery.recipient == recipient:
            return {"status_code": delivery.status_code}
    with recorded(ctx, Channel.DISCORD, recipient, event=event, endpoint=endpoint) as row:
        _send(name, url, row, body, headers, trusted=trusted)
    return {"status_code": row.status_code}


def _send(
    name: str,
    target: str,
    row: Delivery,
    body: bytes,
    headers: dict[str, str],
    *,
    trusted: bool = False,
) -> None:
    try:
        url = parse_url(target, trusted=trusted)
        row.status_code, retry_after = post(url, body, headers)
    except AddressRefused as error:
        raise Fatal(f"{name}: {error}") from error
    except (OSError, HTTPException) as error:
        # The error may quote the endpoint's answer; `from None` keeps it out of the traceback.
        what = type(error).__name__
        raise Retryable(f"{name} cannot be reached: {what}") from None
    status = row.status_code
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    answered = f"{name} answered {status}"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TEMPORARY:
        raise Retryable(answered, retry_after=_wait(retry_after, row.attempt))
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        answered += ", and redirects are not followed"
    raise Fatal(answered)


def post(url: WebhookURL, body: bytes, headers: Mapping[str, str]) -> tuple[int, str | None]:
    """Post to a vetted address of the URL's host; return the status and the header Retry-After.

    Redirects are not followed, and only the headers of the answer are read.

    Raises:
        AddressRefused: the host has an address that is not public.
        OSError, HTTPException: the host cannot be reached, or does not speak HTTP.
    """
    connection = _VettedConnection(url, vetted_addresses(url))
    try:
        connection.request("POST", url.path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.getheader("Retry-After")
    finally:
        connection.close()


class _VettedConnection(HTTPConnection):
    """A connection to given addresses; the name is used only for `Host` and for TLS."""

    def __init__(self, url: WebhookURL, addresses: list[str]) -> None:
        super().__init__(url.host, url.port, timeout=TIMEOUT_SECONDS)
        # The header `Host` leaves out the default port.
        self.default_port = PORTS[url.scheme]
        self._is_tls = url.scheme == "https"
        self._addresses = addresses

    def connect(self) -> None:
        """Connect to the first address that answers."""
        self.sock = self._dial()
        if self._is_tls:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)

    def _dial(self) -> socket.socket:
        for address in self._addresses[:-1]:
            try:
                return socket.create_connection((address, self.port), TIMEOUT_SECONDS)
            except OSError:
                continue
        return socket.create_connection((self._addresses[-1], self.port), TIMEOUT_SECONDS)


def _wait(retry_after: str | None, attempt: int) -> float | None:
    """Return the seconds until the next attempt; None if the endpoint names no time."""
    asked = _seconds(retry_after)
    if asked is None or attempt <= OBEYED_ATTEMPTS:
        return asked
    return max(asked, NOTIFICATION_RETRY.delay_seconds(attempt, SystemRandom()))


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds that a header Retry-After asks for, None if it asks for none."""
    text = (retry_after or "").strip()
    if not text:
        return None
    try:
        seconds = float(text) if text.isdigit() else _until(text)
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS)


def _until(text: str) -> float:
    moment = parsedate_to_datetime(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.timestamp() - time.time()
