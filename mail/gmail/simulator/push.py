"""Pub/Sub: what a watched mailbox publishes, and its delivery with a signed token.

As Google does it: a message is delivered until it is acknowledged (2xx), under the same messageId,
and the token is an RS256 JWT of the subscription's service account, good for an hour.
"""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httplib2

from mail.gmail.simulator.answer import Answer, Request
from mail.gmail.simulator.store import Store

CERTIFICATES_PATH = "/oauth2/v1/certs"
ISSUER = "https://accounts.google.com"
TOKEN_SECONDS = 3600
TIMEOUT_SECONDS = 20
_KEY_BITS = 2048


def publish(
    connection: sqlite3.Connection,
    mailbox_pk: int,
    address: str,
    history_id: int,
    label_ids: Collection[str],
) -> None:
    """Publish a change to a message with these labels, where the mailbox's watch asks for it."""
    row = connection.execute("SELECT watch FROM mailbox WHERE pk = ?", (mailbox_pk,)).fetchone()
    watch = json.loads(row["watch"] or "{}")
    if not watch or int(watch["expiration"]) <= time.time() * 1000:
        return
    named = set(watch.get("labelIds", []))
    excludes = watch.get("labelFilterBehavior", "include").lower() == "exclude"
    if named and named.isdisjoint(label_ids) != excludes:
        return
    connection.execute(
        "INSERT INTO notification (topic, address, history_id) VALUES (?, ?, ?)",
        (watch["topicName"], address, history_id),
    )


def subscribe(
    store: Store, topic: str, endpoint: str, *, audience: str, service_account: str
) -> None:
    """Push what is published to the topic to this address, signed by this service account."""
    with store.write() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO subscription VALUES (?, ?, ?, ?)",
            (topic, endpoint, audience, service_account),
        )


def deliver(store: Store, *, copies: int = 1, lose: bool = False) -> list[int]:
    """Push the waiting messages, oldest first, and return the statuses; refused ones keep waiting.

    `copies` repeats each message. With `lose` they are dropped instead.
    """
    rows = waiting(store)
    if lose:
        _acknowledge(store, [row["pk"] for row in rows])
        return []
    statuses = []
    for row in [row for row in rows for _ in range(copies)]:
        statuses.append(_push(store, row))
        if 200 <= statuses[-1] < 300:
            _acknowledge(store, [row["pk"]])
    return statuses


def envelope(address: str, history_id: int | str, message_id: str) -> bytes:
    """Return the body of a push, as Pub/Sub writes it."""
    data = json.dumps({"emailAddress": address, "historyId": history_id}).encode()
    message = {
        "data": base64.b64encode(data).decode(),
        "messageId": message_id,
        "message_id": message_id,
        "publishTime": datetime.now(UTC).isoformat(),
    }
    return json.dumps({"message": message, "subscription": "projects/p/subscriptions/s"}).encode()


def sign(
    store: Store, audience: str, service_account: str, claims: Mapping[str, Any] | None = None
) -> str:
    """Return a token as Pub/Sub sends it; `claims` replace some of its own."""
    from google.auth import crypt, jwt

    key_id, private_key, _ = _signing_key(store)
    now = int(time.time())
    standard = {
        "iss": ISSUER,
        "aud": audience,
        "azp": "110000000000000000000",
        "sub": "110000000000000000000",
        "email": service_account,
        "email_verified": True,
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
    signer = crypt.RSASigner.from_string(private_key, key_id)  # type: ignore[no-untyped-call]  # few types
    token: bytes = jwt.encode(signer, {**standard, **(claims or {})})  # type: ignore[no-untyped-call]  # as above
    return token.decode()


def certificates(store: Store) -> dict[str, str]:
    """Return the certificates that the tokens are checked with, by key id."""
    key_id, _, certificate = _signing_key(store)
    return {key_id: certificate}


def answer_certificates(store: Store, request: Request) -> Answer | None:
    """Return the certificates over HTTP; None for another path."""
    if request.verb != "GET" or request.uri.partition("?")[0] != CERTIFICATES_PATH:
        return None
    body = json.dumps(certificates(store)).encode()
    return Answer(200, body, {"cache-control": "public, max-age=3600"})


def waiting(store: Store) -> list[sqlite3.Row]:
    """Return the messages published to a topic with a subscription and not acknowledged."""
    with store.read() as connection:
        return connection.execute(
            "SELECT n.pk, n.address, n.history_id, s.endpoint, s.audience, s.service_account"
            " FROM notification n JOIN subscription s ON s.topic = n.topic"
            " WHERE n.acknowledged = 0 ORDER BY n.pk"
        ).fetchall()


def _acknowledge(store: Store, pks: Collection[int]) -> None:
    with store.write() as connection:
        connection.executemany(
            "UPDATE notification SET acknowledged = 1 WHERE pk = ?", [(pk,) for pk in pks]
        )


def _push(store: Store, row: sqlite3.Row) -> int:
    headers = {
        "authorization": f"Bearer {sign(store, row['audience'], row['service_account'])}",
        "content-type": "application/json",
    }
    body = envelope(row["address"], row["history_id"], str(10**15 + row["pk"]))
    try:
        response, _ = httplib2.Http(timeout=TIMEOUT_SECONDS).request(
            row["endpoint"], "POST", body=body, headers=headers
        )
    except (OSError, httplib2.HttpLib2Error):
        return 503
    return int(response.status)


def _signing_key(store: Store) -> tuple[str, str, str]:
    """Return key id, private key and certificate as PEM text, created at the first call."""
    with store.read() as connection:
        row = connection.execute("SELECT * FROM signing_key LIMIT 1").fetchone()
    if row is None:
        made = _new_key()
        with store.write() as connection:
            # Another process may have stored its key first.
            connection.execute(
                "INSERT INTO signing_key SELECT ?, ?, ?"
                " WHERE NOT EXISTS (SELECT 1 FROM signing_key)",
                made,
            )
            row = connection.execute("SELECT * FROM signing_key LIMIT 1").fetchone()
    return row["key_id"], row["private_key"], row["certificate"]


def _new_key() -> tuple[str, str, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulator")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    return secrets.token_hex(20), private.decode(), public.decode()
