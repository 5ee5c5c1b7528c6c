"""`manage.py create_firm NAME --slug S`."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.db import transaction

from interfaces.commands import JsonCommand, Refused
from tenants.audit import record_operation
from tenants.cli import operator
from tenants.models import Firm


class Command(JsonCommand):
    """Creates a firm."""

    help = "Create a firm."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the firm's name and slug."""
        parser.add_argument("name")
        parser.add_argument("--slug", required=True, help="short name used in URLs and commands")

    def handle(self, *_: Any, name: str, slug: str, json: bool, **__: Any) -> None:
        """Create the firm; refuse a slug that is taken or malformed."""
        firm = Firm(name=name, slug=slug)
        try:
            firm.full_clean()
        except ValidationError as error:
            faults = (f"{name}: {' '.join(texts)}" for name, texts in error.message_dict.items())
            raise Refused("; ".join(faults)) from error
        with transaction.atomic():
            firm.save()
            after = {"name": name, "slug": slug}
            record_operation(
                operator(), "firm.create", firm_id=firm.pk, target=("firm", firm.pk), after=after
            )
        if json:
            self.emit({"id": firm.pk, "name": firm.name, "slug": firm.slug})
        else:
            self.stdout.write(f"Created firm {firm.name} (slug {firm.slug}, id {firm.pk}).")
