"""`manage.py dumpdata`: Django's command, but in a scope, without which firms' tables refuse."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import dumpdata

from tenants.scope import all_firms


class Command(dumpdata.Command):
    """Writes the rows of every firm, beside those of all other tables."""

    def handle(self, *app_labels: str, **options: Any) -> None:
        """Write them."""
        with all_firms("the whole database is written"):
            super().handle(*app_labels, **options)
