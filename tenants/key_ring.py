"""The keys that encrypt fields of the database: the first encrypts, all of them decrypt."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tenants.errors import DecryptionFailed, NoEncryptionKey

KEY_BYTES = 32
NONCE_BYTES = 12
_FORMAT = "v1"


@dataclass(frozen=True, repr=False)
class Key:
    """An AES-256 key, and the id by which a stored value names it."""

    id: str
    secret: bytes


class KeyRing:
    """Encrypts by AES-GCM. A stored value is `v1.<key id>.<nonce and ciphertext, base64url>`."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Take keys as text, newest first.

        Raises:
            ValueError: a text is no key; the message names its place, not its content.
        """
        self._keys = [_parse(text, place) for place, text in enumerate(keys, start=1)]

    def encrypt(self, text: str, context: str) -> str:
        """Return `text` encrypted with the first key; `context` must be given again to decrypt it.

        Raises:
            NoEncryptionKey: the ring is empty.
        """
        key = self._first()
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + AESGCM(key.secret).encrypt(nonce, text.encode(), context.encode())
        return f"{_FORMAT}.{key.id}.{base64.urlsafe_b64encode(sealed).decode()}"

    def decrypt(self, stored: str, context: str) -> str:
        """Return the text that was encrypted for the same context.

        Raises:
            NoEncryptionKey: the ring does not have its key.
            DecryptionFailed: the value was altered, or belongs to another context.
        """
        key_id, sealed = _read(stored)
        key = next((key for key in self._keys if key.id == key_id), None)
        if key is None:
            raise NoEncryptionKey(
                f"the value was encrypted with key {key_id}, which is not in FIELD_ENCRYPTION_KEYS"
            )
        nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return AESGCM(key.secret).decrypt(nonce, ciphertext, context.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise DecryptionFailed(
                "the stored value was altered, or copied from another row, field or firm"
            ) from error

    def is_current(self, stored: str) -> bool:
        """Say whether the value is encrypted with the first key.

        Raises:
            NoEncryptionKey: the ring is empty.
            DecryptionFailed: the value is not of this format.
        """
        return _read(stored)[0] == self._first().id

    def _first(self) -> Key:
        if not self._keys:
            raise NoEncryptionKey(
                "FIELD_ENCRYPTION_KEYS is not set; make a key with: manage.py rotate_keys --new-key"
            )
        return self._keys[0]


def new_key() -> str:
    """Return a random key as text."""
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _parse(text: str, place: int) -> Key:
    try:
        secret = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        # The original error may quote the key.
        secret = b""
    if len(secret) != KEY_BYTES:
        raise ValueError(f"key {place} is not {KEY_BYTES} bytes in base64")
    return Key(hashlib.sha256(b"mailroom key id:" + secret).hexdigest()[:8], secret)


def _read(stored: str) -> tuple[str, bytes]:
    try:
        form, key_id, encoded = stored.split(".")
        sealed = base64.b64decode(encoded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        form, key_id, sealed = "", "", b""
    if form != _FORMAT or len(sealed) <= NONCE_BYTES:
        raise DecryptionFailed("the stored value is not encrypted")
    return key_id, sealed
