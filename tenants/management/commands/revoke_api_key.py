"""`manage.py revoke_api_key PREFIX`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, NotFound
from tenants.api import keys
from tenants.cli import operator


class Command(JsonCommand):
    """Revokes an API key for good."""

    help = "Revoke an API key."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the key's prefix, which is no secret."""
        parser.add_argument("prefix", help="the key's part between its first two underscores")

    def handle(self, *_: Any, prefix: str, json: bool, **__: Any) -> None:
        """Revoke the key."""
        revoked = keys.revoke(prefix, by=operator())
        if not revoked:
            raise NotFound(f"there is no valid key with the prefix {prefix!r}")
        if json:
            self.emit({"prefix": prefix, "revoked": revoked})
        else:
            self.stdout.write(f"Revoked {prefix}.")
