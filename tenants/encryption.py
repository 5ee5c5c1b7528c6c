"""Model fields that hold text encrypted with FIELD_ENCRYPTION_KEYS.

Each value is bound to its firm, its field and its row: copied elsewhere it cannot be decrypted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.db import models

from tenants.key_ring import KeyRing
from tenants.models import FirmOwned

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField

BATCH = 200


class EncryptedTextField(_TextField):
    """Holds ciphertext only; `encrypt_field` and `decrypt_field` turn it into text and back."""


def encrypt_field(row: FirmOwned, name: str, text: str) -> None:
    """Set the row's field to the encrypted text, without saving it. Empty text stays empty.

    Raises:
        NoEncryptionKey: FIELD_ENCRYPTION_KEYS is empty.
    """
    setattr(row, name, _key_ring().encrypt(text, _context(row, name)) if text else "")


def decrypt_field(row: FirmOwned, name: str) -> str:
    """Return the text of an encrypted field of the row.

    Raises:
        NoEncryptionKey: FIELD_ENCRYPTION_KEYS lacks the key that encrypted it.
        DecryptionFailed: the stored value was altered, or copied from another row or field.
    """
    stored: str = getattr(row, name)
    return _key_ring().decrypt(stored, _context(row, name)) if stored else ""


def encrypted_models() -> Iterator[tuple[type[Any], list[str]]]:
    """Yield each model that has encrypted fields, with their names."""
    for model in apps.get_models():
        names = [
            field.name
            for field in model._meta.local_concrete_fields
            if isinstance(field, EncryptedTextField)
        ]
        if names:
            yield model, names


def encrypt_anew(row: FirmOwned, names: list[str]) -> bool:
    """Encrypt the values of other keys with the first key; return whether anything changed.

    Raises:
        NoEncryptionKey: FIELD_ENCRYPTION_KEYS lacks the key that encrypted a value.
        DecryptionFailed: a stored value was altered, or copied from another row or field.
    """
    outdated = [
        name
        for name in names
        if getattr(row, name) and not _key_ring().is_current(getattr(row, name))
    ]
    for name in outdated:
        encrypt_field(row, name, decrypt_field(row, name))
    if outdated:
        row.save(update_fields=outdated)
    return bool(outdated)


def _key_ring() -> KeyRing:
    return _ring_of(tuple(getattr(settings, "FIELD_ENCRYPTION_KEYS", ())))


@lru_cache(maxsize=8)
def _ring_of(keys: tuple[str, ...]) -> KeyRing:
    return KeyRing(keys)


def _context(row: FirmOwned, name: str) -> str:
    return f"{row.firm_id}:{row._meta.db_table}.{name}:{row.pk}"
