"""`manage.py dlq`: list, show, reprocess, discard, escalate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from interfaces.commands import JsonCommand, NotFound
from jobs.management import arguments
from jobs.management.arguments import argument, find_one, row_id
from jobs.management.subcommand import CommandGroup, Options, Result, list_subcommand, subcommand
from jobs.management.tables import columns_of, error_column, first_line
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters as operations
from jobs.operations.escalation import NO_RECIPIENTS, escalation_recipients
from jobs.queries.durations import since_in_words
from jobs.queries.filters import filter_dead_letters
from jobs.queries.lists import dead_letters
from jobs.queries.serializers.jobs import DeadLetterSerializer
from jobs.states import DeadReason, Resolution
from tenants.cli import operator

_ID = row_id("dead letter")
_REASON = argument("--reason", required=True, help="why; kept with the decision")


def _rows(options: Options) -> QuerySet[DeadLetterQueue]:
    return filter_dead_letters(
        dead_letters(),
        resolution=options["status"],
        reason=options["reason"],
        category=options["category"],
        job_type=options["job_type"],
        created_after=options["since"],
    )


def _cells(row: DeadLetterQueue, now: datetime) -> Sequence[object]:
    return [
        row.pk,
        row.original_job.job_type,
        row.reason,
        since_in_words(row.moved_at, now),
        row.resolution or "open",
        first_line(f"{row.error_class} {row.error}") or None,
    ]


_list = list_subcommand(
    "List dead letters, newest first.",
    argument(
        "--status",
        choices=["open", *(word.value for word in Resolution)],
        help="open: no decision yet, escalated ones among them",
    ),
    argument("--reason", choices=[reason.value for reason in DeadReason]),
    arguments.CATEGORY,
    arguments.TYPE,
    argument(
        "--since", type=arguments.since, metavar="WHEN", help="moved since: a time, or 30m, 6h, 2d"
    ),
    rows=_rows,
    serializer=DeadLetterSerializer,
    columns=lambda: [
        *columns_of("Dead letter", "Type", "Reason", "Moved", "Decision"),
        error_column("Error"),
    ],
    cells=_cells,
    empty="No dead letters.",
)


@subcommand("show", "Show one dead letter: why its job stopped, and what was decided.", _ID)
def _show(options: Options) -> Result:
    data = DeadLetterSerializer(_find(options)).data

    def show(command: JsonCommand) -> None:
        facts = [(name.replace("_", " "), value) for name, value in data.items() if value]
        command.facts(f"Dead letter {data['id']}", facts)
        command.stdout.write(f"\nIts job: manage.py jobs show {data['job_id']}")

    return Result(data, show)


@subcommand(
    "reprocess",
    "Send the job round again, with an edited payload when one is given.",
    _ID,
    argument("--payload", type=arguments.json_object, metavar="JSON", help="instead of its own"),
    arguments.PRIORITY,
    argument("--note", default="", help="kept with the decision"),
)
def _reprocess(options: Options) -> Result:
    letter = _find(options)
    operations.reprocess(
        letter,
        by=operator(),
        payload=options["payload"],
        priority=options["priority"],
        note=options["note"],
    )
    return _result(letter.pk)


@subcommand("discard", "Give the job up for good; it becomes failed.", _ID, _REASON)
def _discard(options: Options) -> Result:
    letter = _find(options)
    operations.discard(letter, options["reason"], by=operator())
    return _result(letter.pk)


@subcommand(
    "escalate",
    "Ask somebody by e-mail to look at it; it stays open.",
    _ID,
    _REASON,
    argument("--to", metavar="USERNAME", help="a member of the firm; else its admins"),
)
def _escalate(options: Options) -> Result:
    letter = _find(options)
    members = get_user_model().objects.filter(memberships__firm=letter.firm_id)
    to = members.filter(username=options["to"]).first() if options["to"] else None
    if options["to"] and to is None:
        raise NotFound(f"{letter.firm.slug} has no member named {options['to']!r}")
    operations.escalate(letter, options["reason"], to=to, by=operator())
    recipients = escalation_recipients(letter.firm_id, to)
    return _result(letter.pk, warning="" if recipients else NO_RECIPIENTS)


def _find(options: Options) -> DeadLetterQueue:
    return find_one(dead_letters(), "dead letter", options["id"])


def _result(letter_id: Any, warning: str = "") -> Result:
    letter = dead_letters().get(pk=letter_id)
    text = f"Dead letter {letter.pk} ({letter.original_job.job_type}) is {letter.resolution}."
    return Result(DeadLetterSerializer(letter).data, text, warning)


class Command(CommandGroup):
    """The queue's dead letters."""

    help = "Look at dead letters, and decide about them."
    subcommands = (_list, _show, _reprocess, _discard, _escalate)
