"""`manage.py dlq`: list, show, groups, rehearse, reprocess, discard, escalate, bulk."""

from __future__ import annotations

from django.db.models import QuerySet
from rich.table import Column

from interfaces.commands import JsonCommand, NotFound, nonempty
from jobs.engine.clock import database_now
from jobs.management import arguments
from jobs.management.arguments import argument, row_id, row_ids
from jobs.management.bulk import bulk_subcommand
from jobs.management.rehearsal import show_rehearsal
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of, error_column, firm_of, first_line
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters as operations
from jobs.operations.escalation import NO_RECIPIENTS, escalation_recipients
from jobs.operations.rehearsal import rehearse
from jobs.queries.durations import since_in_words
from jobs.queries.filters import filter_dead_letters
from jobs.queries.groups import dead_letter_groups
from jobs.queries.last_errors import error_in_words
from jobs.queries.lists import dead_letters
from jobs.queries.serializers.bulk import GroupsSerializer
from jobs.queries.serializers.jobs import DeadLetterSerializer
from jobs.queries.serializers.rehearsal import RehearsalSerializer
from jobs.states import OPEN_RESOLUTIONS, BulkOperation, DeadReason, Resolution
from tenants.cli import operator
from tenants.users import find_users

_ID, _IDS = row_id("dead letter"), row_ids("dead letter")
_PAYLOAD = argument(
    "--payload",
    type=arguments.json_object,
    metavar="JSON",
    help="the job's new payload, instead of its own",
)
_SEARCH = argument(
    "--search",
    type=nonempty,
    metavar="TEXT",
    help="an id, a fingerprint, an error class, or error:TEXT",
)
_REASON = argument("--reason", required=True, help="why; kept with the decision")
DEAD_LETTERS = Resource("dead letter", dead_letters, DeadLetterSerializer)


def _rows(options: Options) -> QuerySet[DeadLetterQueue]:
    names = ("reason", "category", "job_type", "fingerprint", "user", "search")
    return filter_dead_letters(
        dead_letters(),
        resolution=options["resolution"],
        created_after=arguments.begin_of(options["since"]),
        **{name: options[name] for name in names},
    )


_list = DEAD_LETTERS.list(
    "List dead letters, newest first.",
    argument(
        "--resolution",
        "--status",
        choices=["open", *(word.value for word in Resolution)],
        help="open: no decision yet, including escalated ones",
    ),
    argument("--reason", choices=[reason.value for reason in DeadReason]),
    argument("--fingerprint", help="of one group: see dlq groups"),
    arguments.CATEGORY,
    arguments.TYPE,
    arguments.USER,
    _SEARCH,
    argument(
        "--since",
        type=arguments.since,
        metavar="WHEN",
        help="dead-lettered at or after this time, or within the last 30m, 6h, 2d",
    ),
    rows=_rows,
    columns=lambda: [
        *columns_of("Dead letter", "Type", "Reason", "Moved", "Resolution", "Firm"),
        error_column("Error"),
    ],
    cells=lambda row, now: [
        row.pk,
        row.original_job.job_type,
        row.reason,
        since_in_words(row.moved_at, now),
        row.resolution or "open",
        firm_of(row),
        first_line(error_in_words(row.error_class, row.error)) or None,
    ],
    empty="No dead letters.",
)


@subcommand(
    "show", "Show one dead letter: why its job was dead-lettered, and what was decided.", _ID
)
def _show(options: Options) -> Result:
    data = DeadLetterSerializer(DEAD_LETTERS.find(options)).data

    def show(command: JsonCommand) -> None:
        facts = [(name.replace("_", " "), value) for name, value in data.items() if value]
        command.facts(f"Dead letter {data['id']}", facts)
        command.stdout.write(f"\nIts job: manage.py jobs show {data['job_id']}")
        if data["resolution"] in (None, *OPEN_RESOLUTIONS):
            verbs = "rehearse, reprocess (--payload JSON for a corrected one), discard or escalate"
            command.stdout.write(f"To decide: manage.py dlq {verbs} {data['id']}")

    return Result(data, show)


@subcommand(
    "rehearse",
    "Run the job in a transaction that is rolled back, and show what it would do.",
    _ID,
    _PAYLOAD,
)
def _rehearse(options: Options) -> Result:
    letter = DEAD_LETTERS.find(options)
    report = rehearse(letter, payload=options["payload"], by=operator())
    data = RehearsalSerializer(report).data
    return Result(data, lambda command: show_rehearsal(command, data))


def _decided(letter: DeadLetterQueue) -> str:
    return f"Dead letter {letter.pk} ({letter.original_job.job_type}) is {letter.resolution}."


_reprocess = DEAD_LETTERS.operation(
    "reprocess",
    (
        "Return the job to the queue, with an edited payload if one is given. Its attempts start "
        "from zero."
    ),
    _IDS,
    _PAYLOAD,
    arguments.PRIORITY,
    argument("--reason", "--note", default="", help="why; kept with the decision"),
    operate=operations.reprocess,
    takes=("payload", "priority", "reason"),
    text=_decided,
)
_discard = DEAD_LETTERS.operation(
    "discard",
    "The job becomes failed and runs again only if somebody retries it.",
    _IDS,
    _REASON,
    operate=operations.discard,
    text=_decided,
)


@subcommand(
    "escalate",
    "Ask somebody by e-mail to decide; the dead letter stays open until then.",
    _IDS,
    _REASON,
    argument(
        "--to", metavar="USERNAME", help="a member of the firm; without it, the firm's admins"
    ),
)
def _escalate(options: Options) -> Result:
    letter = DEAD_LETTERS.find(options)
    named = find_users(options["to"] or "").filter(memberships__firm=letter.firm_id)
    to = named.first() if options["to"] else None
    if options["to"] and to is None:
        raise NotFound(f"{letter.firm.slug} has no member named {options['to']!r}")
    operations.escalate(letter, options["reason"], to=to, by=operator())
    recipients = escalation_recipients(letter.firm_id, to)
    return DEAD_LETTERS.result(letter, _decided, warning="" if recipients else NO_RECIPIENTS)


@subcommand("groups", "List open dead letters by failure, the largest groups first.", reads=True)
def _groups(options: Options) -> Result:  # noqa: ARG001 - the scope says which firms
    now = database_now()
    groups, more = dead_letter_groups(now)

    def show(command: JsonCommand) -> None:
        if not groups:
            command.stdout.write("No open dead letters.")
            return
        names = ("Count", "Firms", "Type", "First", "Last")
        command.table(
            "",
            [
                *(Column(name, no_wrap=True) for name in ("Fingerprint", *names)),
                error_column("Error"),
            ],
            [
                [
                    group.fingerprint or None,
                    group.count,
                    len(group.firms),
                    ", ".join(group.job_types),
                    since_in_words(group.first_seen, now) if group.first_seen else None,
                    since_in_words(group.last_seen, now) if group.last_seen else None,
                    first_line(error_in_words(group.sample.error_class, group.sample.error))
                    if group.sample
                    else None,
                ]
                for group in groups
            ],
        )
        if more:
            command.stdout.write("Smaller groups are not shown.")

    return Result(GroupsSerializer({"results": groups, "more": more}).data, show)


_bulk = bulk_subcommand(
    [BulkOperation.REPROCESS, BulkOperation.DISCARD],
    "dead letter",
    {
        "fingerprint": "fingerprint",
        "dead_reason": "reason",
        "category": "category",
        "job_type": "job_type",
        "user": "user",
        "since": "created_after",
        "resolution": "resolution",
        "search": "search",
    },
    argument(
        "--resolution",
        "--status",
        choices=["open", "escalated"],
        help="escalated: not the other open ones",
    ),
    argument("--fingerprint", help="of one group: see dlq groups"),
    argument("--dead-reason", choices=[reason.value for reason in DeadReason]),
    arguments.CATEGORY,
    arguments.TYPE,
    arguments.USER,
    _SEARCH,
    argument("--since", type=arguments.since, metavar="WHEN"),
)


class Command(CommandGroup):
    """The queue's dead letters."""

    help = "List and show dead letters, and decide about them."
    subcommands = (_list, _show, _rehearse, _reprocess, _discard, _escalate, _groups, _bulk)
