"""`manage.py rotate_keys`: encrypt every stored secret with the first key."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from interfaces.commands import JsonCommand, Refused
from tenants.encryption import BATCH, encrypt_anew, encrypted_models
from tenants.errors import EncryptionError
from tenants.key_ring import new_key
from tenants.models import FirmOwned
from tenants.scope import all_firms


class Command(JsonCommand):
    """Encrypts what is stored with the first of FIELD_ENCRYPTION_KEYS, a batch at a time."""

    help = (
        "Encrypt every stored secret again with the first of FIELD_ENCRYPTION_KEYS. May be "
        "repeated."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add `--new-key`."""
        parser.add_argument(
            "--new-key", action="store_true", help="only print a random new key, and change nothing"
        )

    def handle(self, *_: Any, new_key: bool, json: bool, **__: Any) -> None:
        """Encrypt anew, and say how many rows changed; a row that cannot be decrypted is named."""
        if new_key:
            self._show_new_key(as_json=json)
            return
        changed, current, failed = 0, 0, []
        for model, names in encrypted_models():
            for page in _pages(model):
                with all_firms("rotate the keys of encrypted fields"):
                    for row in model.objects.select_for_update(no_key=True).filter(pk__in=page):
                        try:
                            was_outdated = encrypt_anew(row, names)
                        except EncryptionError as error:
                            failed.append(f"{model._meta.label} {row.pk}: {error}")
                            continue
                        changed += was_outdated
                        current += not was_outdated
        report = f"{changed} rows were encrypted again, {current} already had the current key"
        if failed:
            raise Refused("\n".join([f"{report}; {len(failed)} cannot be decrypted:", *failed]))
        if json:
            self.emit({"changed": changed, "already_current": current})
        else:
            self.stdout.write(f"{report}.")

    def _show_new_key(self, *, as_json: bool) -> None:
        key = new_key()
        if as_json:
            self.emit({"key": key})
        else:
            self.stdout.write(key)


def _pages(model: type[FirmOwned]) -> Iterator[list[UUID]]:
    """Yield the ids of all rows, some at a time."""
    last = UUID(int=0)
    while True:
        with all_firms("rotate the keys of encrypted fields"):
            rows = model.objects.filter(pk__gt=last).order_by("pk")
            page = list(rows.values_list("pk", flat=True)[:BATCH])
        if not page:
            return
        yield page
        last = page[-1]
