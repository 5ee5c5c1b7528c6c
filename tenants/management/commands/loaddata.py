"""`manage.py loaddata`: Django's command, but in a scope, without which firms' tables refuse."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import loaddata

from tenants.scope import all_firms


class Command(loaddata.Command):
    """Stores the rows that `dumpdata` wrote, of every firm."""

    def handle(self, *fixture_labels: str, **options: Any) -> None:
        """Store it."""
        with all_firms("the rows of a whole database are stored"):
            super().handle(*fixture_labels, **options)
