"""`manage.py delete_firm SLUG --yes`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, Refused
from jobs.management.subcommand import refusals
from jobs.operations import deletion
from tenants.cli import firm_by_slug, operator


class Command(JsonCommand):
    """Begins the deletion of a firm; a job does it."""

    help = "Delete a firm and everything that it owns; the audit log stays."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the firm, the reason and the confirmation."""
        parser.add_argument("slug", help="the firm's slug")
        parser.add_argument("--reason", default="deleted on the command line")
        parser.add_argument(
            "--export",
            action="store_true",
            help="export the firm first; only platform staff can download the zip",
        )
        parser.add_argument(
            "--yes", action="store_true", help="confirm the deletion; it cannot be undone"
        )

    def handle(
        self, *_: Any, slug: str, reason: str, yes: bool, json: bool, export: bool, **__: Any
    ) -> None:
        """Begin the deletion.

        Raises:
            Refused: not confirmed, or it cannot be deleted.
            NotFound: there is no such firm.
        """
        with refusals():
            firm = firm_by_slug(slug)
            if not yes:
                raise Refused(f"this deletes {firm} for good: confirm with --yes")
            job = deletion.delete_firm(firm, reason, export_first=export, by=operator())
        if json:
            self.emit({"slug": slug, "job_id": str(job.pk)})
        else:
            self.stdout.write(
                f"{firm} is being deleted; to follow it: manage.py jobs show {job.pk}"
            )
