"""`manage.py create_api_key EMAIL --firm S --role R`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, NotFound, Refused
from tenants.api import keys
from tenants.cli import add_member_arguments, firm_by_slug, operator
from tenants.errors import AmbiguousUser
from tenants.models import Role
from tenants.users import find_user

MAX_DAYS = 3650


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MAX_DAYS:
        raise ArgumentTypeError(f"a number from 1 to {MAX_DAYS}, not {text!r}")
    return int(text)


class Command(JsonCommand):
    """Creates an API key and shows it once."""

    help = (
        "Create an API key for a member of a firm. Platform staff may have one for the firm "
        "`system`, which is valid for every firm. The key is shown once and stored hashed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare user, firm, role and lifetime."""
        add_member_arguments(parser, "the user's address or name")
        parser.add_argument(
            "--expires-days",
            type=_days,
            metavar="N",
            help=f"days that the key is valid, at most {MAX_DAYS}; without this, until it is "
            "revoked",
        )

    def handle(self, *_: Any, email: str, firm: str, role: str, **options: Any) -> None:
        """Create the key; refuse a role above the user's own."""
        try:
            user = find_user(email)
        except AmbiguousUser as error:
            raise Refused(str(error), code=error.code) from error
        if user is None:
            raise NotFound(
                f"there is no user {email!r}: create_user creates members, createsuperuser "
                "platform staff"
            )
        days = options["expires_days"]
        try:
            text, key = keys.issue(
                user,
                firm_by_slug(firm),
                Role(role),
                lifetime=None if days is None else timedelta(days=days),
                by=operator(),
            )
        except (keys.RoleTooHigh, keys.RoleTooLow) as error:
            raise Refused(str(error)) from error
        if options["json"]:
            expires = key.expires_at
            self.emit(
                {
                    "key": text,
                    "prefix": key.prefix,
                    "email": user.get_username(),
                    "firm": firm,
                    "role": role,
                    "expires_at": expires and expires.isoformat().replace("+00:00", "Z"),
                }
            )
        else:
            self.stdout.write(text)
            self.stderr.write("Store it now: it will not be shown again.")
