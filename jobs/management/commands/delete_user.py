"""`manage.py delete_user EMAIL --yes`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, Refused
from jobs.management.subcommand import refusals
from jobs.operations import deletion
from tenants.cli import operator


class Command(JsonCommand):
    """Begins the deletion of a user; a job does it."""

    help = "Delete a user and everything that was done on their behalf; the audit log stays."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the user, the reason and the confirmation."""
        parser.add_argument("email", help="the user's address or name")
        parser.add_argument("--reason", default="deleted on the command line")
        parser.add_argument(
            "--yes", action="store_true", help="confirm the deletion; it cannot be undone"
        )

    def handle(self, *_: Any, email: str, reason: str, yes: bool, json: bool, **__: Any) -> None:
        """Begin the deletion.

        Raises:
            Refused: not confirmed, or it cannot be deleted.
            NotFound: there is no such user.
        """
        with refusals():
            user = deletion.user_by_key(email)
            if not yes:
                raise Refused(f"this deletes {user} for good: confirm with --yes")
            job = deletion.delete_user(user, reason, by=operator())
        if json:
            self.emit({"email": email, "job_id": str(job.pk)})
        else:
            self.stdout.write(
                f"{user} is being deleted; to follow it: manage.py jobs show {job.pk}"
            )
