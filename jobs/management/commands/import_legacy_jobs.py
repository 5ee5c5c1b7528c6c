"""`manage.py import_legacy_jobs`: the jobs of an older system's table become jobs here."""

from __future__ import annotations

import json as jsonlib
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand
from interfaces.strict_json import without_repeats
from jobs.management.subcommand import refusals
from jobs.operations.legacy.importing import ImportReport, ImportSpec, import_legacy_jobs
from jobs.operations.legacy.rows import Mapped
from jobs.operations.legacy.shapes import SHAPES
from jobs.states import Status
from tenants.cli import firm_by_slug, operator


def pair(text: str) -> tuple[str, str]:
    """Read `theirs=ours`; a name alone stands for every row."""
    left, equals, right = text.partition("=")
    if not left or bool(equals) != bool(right):
        raise ArgumentTypeError(f"a name, or two joined by =, not {text!r}")
    return (left, right) if equals else ("", left)


def named_pair(text: str) -> tuple[str, str]:
    """Read `ours=theirs`."""
    found = pair(text)
    if not found[0]:
        raise ArgumentTypeError(f"two names joined by =, not {text!r}")
    return found


def mapping(text: str) -> dict[str, dict[str, str]]:
    """Read a JSON file of `job_types` and `fields`."""
    try:
        found = jsonlib.loads(Path(text).read_bytes(), object_pairs_hook=without_repeats)
    except OSError as error:
        raise ArgumentTypeError(f"{text}: {error.strerror}") from error
    except ValueError as error:
        raise ArgumentTypeError(f"{text} is not JSON: {error}") from error
    known = {"job_types", "fields"}
    if not isinstance(found, dict) or not found.keys() <= known:
        raise ArgumentTypeError(f"{text} must be an object of {' and '.join(sorted(known))}")
    for part in found.values():
        if not isinstance(part, dict) or not all(isinstance(one, str) for one in part.values()):
            raise ArgumentTypeError(f"{text}: each part must be an object of names")
    return found


class Command(JsonCommand):
    """Enqueues a table's waiting jobs and stores finished ones as history; each row only once."""

    help = "Import the jobs of an older system's table. Rows that were imported before are skipped."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the table, and what its names mean here."""
        parser.add_argument("--from", dest="shape", required=True, choices=list(SHAPES))
        parser.add_argument("--table", default="", help="the table's name; required for per_type")
        parser.add_argument(
            "--firm", required=True, metavar="SLUG", help="the firm that the jobs will belong to"
        )
        parser.add_argument(
            "--job-type",
            action="append",
            default=[],
            type=pair,
            metavar="[THEIRS=]OURS",
            help="the type of every row, or of the rows of one of their types; may be repeated",
        )
        parser.add_argument(
            "--field",
            action="append",
            default=[],
            type=named_pair,
            metavar="OURS=THEIRS",
            help="a payload field and the column or key it comes from; if given, only these are "
            "taken; may be repeated",
        )
        parser.add_argument(
            "--map",
            type=mapping,
            default={},
            metavar="FILE",
            help="a JSON file with the same mappings",
        )
        parser.add_argument(
            "--database",
            default="default",
            metavar="ALIAS",
            help="an alias in the setting DATABASES",
        )
        parser.add_argument(
            "--failed-as",
            choices=[Status.FAILED.value, Status.DLQ.value],
            default=Status.FAILED.value,
            help="the status of failed jobs; dlq: each waits for a decision",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="show what would be imported, and store nothing"
        )

    def handle(self, *_: Any, json: bool, **options: Any) -> None:
        """Import, and print what became of the rows."""
        types = {**options["map"].get("job_types", {}), **dict(options["job_type"])}
        fields = {**options["map"].get("fields", {}), **dict(options["field"])}
        mapped = Mapped(
            types={theirs: ours for theirs, ours in types.items() if theirs},
            every_type=types.get("", ""),
            fields=fields,
        )
        spec = ImportSpec(
            shape=options["shape"],
            firm=firm_by_slug(options["firm"]),
            table=options["table"],
            mapped=mapped,
            database=options["database"],
            failed_as=Status(options["failed_as"]),
            dry_run=options["dry_run"],
        )
        with refusals():
            report = import_legacy_jobs(spec, by=operator())
        if report.left_in_queue:
            self.stderr.write(
                f"Jobs wait in {report.left_in_queue} as pickles, which are not imported: let "
                "the older system finish them."
            )
        if json:
            self.emit(report.as_json())
        else:
            self._show(report)

    def _show(self, report: ImportReport) -> None:
        history = report.history.total()
        by_status = ", ".join(f"{count:,} {name}" for name, count in sorted(report.history.items()))
        title = f"{report.table}: a dry run, nothing was stored" if report.dry_run else report.table
        facts = [
            ("Rows read", f"{report.read:,}"),
            ("Enqueued", f"{report.enqueued:,}"),
            ("History", f"{history:,}" + (f" ({by_status})" if by_status else "")),
            ("Already there", f"{report.already_there:,}"),
            ("Skipped", f"{report.skipped:,}"),
        ]
        if report.imported and not report.dry_run:
            facts.append(("Correlation id", report.correlation_id))
        self.facts(title, facts)
        if report.reasons:
            rows = [(one.id, one.field, one.code, one.message) for one in report.reasons]
            self.table("Skipped", ["Row", "Field", "Code", "Why"], rows)
        if report.reasons_left_out:
            self.stdout.write(f"and {report.reasons_left_out:,} more")
