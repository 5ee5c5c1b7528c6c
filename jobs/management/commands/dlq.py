"""`manage.py dlq`: list, show, reprocess, discard, escalate."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from interfaces.commands import JsonCommand, NotFound
from jobs.management import arguments
from jobs.management.arguments import argument, row_id
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
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
DEAD_LETTERS = Resource("dead letter", dead_letters, DeadLetterSerializer)


def _rows(options: Options) -> QuerySet[DeadLetterQueue]:
    names = ("reason", "category", "job_type")
    return filter_dead_letters(
        dead_letters(),
        resolution=options["status"],
        created_after=options["since"],
        **{name: options[name] for name in names},
    )


_list = DEAD_LETTERS.list(
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
    columns=lambda: [
        *columns_of("Dead letter", "Type", "Reason", "Moved", "Decision"),
        error_column("Error"),
    ],
    cells=lambda row, now: [
        row.pk,
        row.original_job.job_type,
        row.reason,
        since_in_words(row.moved_at, now),
        row.resolution or "open",
        first_line(f"{row.error_class} {row.error}") or None,
    ],
    empty="No dead letters.",
)


@subcommand("show", "Show one dead letter: why its job stopped, and what was decided.", _ID)
def _show(options: Options) -> Result:
    data = DeadLetterSerializer(DEAD_LETTERS.find(options)).data

    def show(command: JsonCommand) -> None:
        facts = [(name.replace("_", " "), value) for name, value in data.items() if value]
        command.facts(f"Dead letter {data['id']}", facts)
        command.stdout.write(f"\nIts job: manage.py jobs show {data['job_id']}")

    return Result(data, show)


def _decided(letter: DeadLetterQueue) -> str:
    return f"Dead letter {letter.pk} ({letter.original_job.job_type}) is {letter.resolution}."


_reprocess = DEAD_LETTERS.operation(
    "reprocess",
    "Send the job round again, with an edited payload when one is given.",
    _ID,
    argument("--payload", type=arguments.json_object, metavar="JSON", help="instead of its own"),
    arguments.PRIORITY,
    argument("--note", default="", help="kept with the decision"),
    operate=operations.reprocess,
    takes=("payload", "priority", "note"),
    text=_decided,
)
_discard = DEAD_LETTERS.operation(
    "discard",
    "Give the job up for good; it becomes failed.",
    _ID,
    _REASON,
    operate=operations.discard,
    text=_decided,
)


@subcommand(
    "escalate",
    "Ask somebody by e-mail to look at it; it stays open.",
    _ID,
    _REASON,
    argument("--to", metavar="USERNAME", help="a member of the firm; else its admins"),
)
def _escalate(options: Options) -> Result:
    letter = DEAD_LETTERS.find(options)
    members = get_user_model().objects.filter(memberships__firm=letter.firm_id)
    to = members.filter(username=options["to"]).first() if options["to"] else None
    if options["to"] and to is None:
        raise NotFound(f"{letter.firm.slug} has no member named {options['to']!r}")
    operations.escalate(letter, options["reason"], to=to, by=operator())
    recipients = escalation_recipients(letter.firm_id, to)
    return DEAD_LETTERS.result(letter, _decided, warning="" if recipients else NO_RECIPIENTS)


class Command(CommandGroup):
    """The queue's dead letters."""

    help = "Look at dead letters, and decide about them."
    subcommands = (_list, _show, _reprocess, _discard, _escalate)
