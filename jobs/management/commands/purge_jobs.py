"""`manage.py purge_jobs`: delete old finished jobs now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from jobs.engine.prune import prune
from tenants.cli import JsonCommand, NotFound
from tenants.errors import UnknownFirm
from tenants.models import Firm


class Command(JsonCommand):
    """Deletes finished jobs past their retention; what nobody reviewed stays."""

    help = "Delete finished jobs older than their firm's retention."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one firm, or serve all."""
        parser.add_argument("--firm", help="slug of one firm (default: all)")

    def handle(self, *_: Any, firm: str | None, json: bool, **__: Any) -> None:
        """Delete in chunks and say how many."""
        try:
            firms = [Firm.objects.get_by_slug(firm)] if firm else list(Firm.objects.all())
        except UnknownFirm as error:
            raise NotFound(str(error)) from error
        totals = {"jobs": 0, "dead_letters": 0, "minutes": 0}
        for one in firms:
            for name, count in vars(prune(one)).items():
                totals[name] += count
        if json:
            self.emit(totals)
        else:
            self.stdout.write(
                f"Deleted {totals['jobs']} jobs and {totals['dead_letters']} dead letters."
            )
