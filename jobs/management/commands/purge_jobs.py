"""`manage.py purge_jobs`: delete old finished jobs now."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, NotFound, nonempty
from jobs.engine.prune import prune
from tenants.errors import UnknownFirm
from tenants.models import Firm


class Command(JsonCommand):
    """Deletes finished jobs and other rows past their retention; dead letters keep their jobs."""

    help = "Delete finished jobs, and other finished rows, past their retention."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--firm`."""
        parser.add_argument("--firm", type=nonempty, help="slug of one firm (default: all)")

    def handle(self, *_: Any, firm: str | None, json: bool, **__: Any) -> None:
        """Delete in batches and print the totals."""
        try:
            firms = [Firm.objects.get_by_slug(firm)] if firm else list(Firm.objects.all())
        except UnknownFirm as error:
            raise NotFound(str(error)) from error
        totals: Counter[str] = Counter()
        for one in firms:
            totals.update(vars(prune(one)))
        if json:
            self.emit(totals)
        else:
            self.stdout.write(
                f"Deleted {totals['jobs']} jobs, {totals['dead_letters']} dead letters and "
                f"{totals['locks']} expired locks."
            )
