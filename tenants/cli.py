"""Tenancy for commands: who runs them, and on which firm's rows they work."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandParser

from interfaces.commands import NotFound
from tenants.audit import Actor
from tenants.errors import UnknownFirm
from tenants.models import Firm, Role
from tenants.scope import all_firms, firm_scope


def operator() -> Actor:
    """Return the actor at the command line, named by the operating system's account."""
    account = os.getuid()
    try:
        name = pwd.getpwuid(account).pw_name
    except KeyError:
        # In a container the user may have a number, but no name.
        name = str(account)
    return Actor("cli", account=name)


@contextmanager
def command_scope(firm_slug: str | None, *, reading: bool = False) -> Iterator[Firm | None]:
    """Work on the rows of the firm with this slug; None means the rows of every firm.

    With `reading` the block must not write; on SQLite it then locks out no other writer.

    Raises:
        NotFound: no firm has this slug.
    """
    if firm_slug is None:
        with all_firms("operator's command line", reading=reading):
            yield None
        return
    firm = firm_by_slug(firm_slug)
    with firm_scope(firm, reading=reading):
        yield firm


def firm_by_slug(slug: str) -> Firm:
    """Return the firm.

    Raises:
        NotFound: no firm has this slug.
    """
    try:
        return Firm.objects.get_by_slug(slug)
    except UnknownFirm as error:
        raise NotFound(str(error)) from error


def add_member_arguments(parser: CommandParser, user: str) -> None:
    """Declare a user, described by that text, the firm and a role in it."""
    parser.add_argument("email", help=user)
    parser.add_argument("--firm", required=True, help="slug of the firm")
    parser.add_argument("--role", required=True, choices=Role.values)
