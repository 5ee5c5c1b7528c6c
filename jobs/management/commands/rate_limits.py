"""`manage.py rate_limits`: list, set, clear."""

from __future__ import annotations

from jobs.management import arguments
from jobs.management.arguments import argument, row_ids
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of, firm_of_limit
from jobs.models import RateLimit
from jobs.operations import limits
from jobs.queries.durations import plain_number
from jobs.queries.serializers.limits import RateLimitSerializer
from jobs.states import CountedBy
from tenants.cli import operator

RATE_LIMITS = Resource(
    "rate limit", lambda: RateLimit.objects.select_related("firm"), RateLimitSerializer
)

_list = RATE_LIMITS.list(
    "List rate limits, the latest first.",
    columns=lambda: columns_of(
        *("Limit", "Firm", "Type", "Limit key", "Counted by", "Starts", "In seconds", "Burst")
    ),
    cells=lambda row, _: [
        row.pk,
        firm_of_limit(row),
        row.job_type or "every",
        row.limit_key or None,
        row.counted_by,
        row.amount,
        plain_number(row.per_seconds),
        row.burst,
    ],
    empty="No rate limits: jobs start as soon as workers are free.",
)


@subcommand(
    "set",
    "Set a rate limit: jobs that are counted together start at most this often.",
    arguments.TYPE,
    arguments.LIMIT_KEY,
    argument(
        "--counted-by",
        choices=[word.value for word in CountedBy],
        default=CountedBy.FIRM.value,
        help="what is counted together: a type's jobs in each firm, jobs of each limit key (of "
        "every type without --type), or a type's jobs in all firms",
    ),
    argument(
        "--amount", type=int, required=True, metavar="N", help="number of starts, or of units"
    ),
    argument("--per", type=float, required=True, metavar="SECONDS", help="in this many seconds"),
    argument(
        "--burst",
        type=int,
        metavar="N",
        help="starts at once after a quiet time (default: the amount)",
    ),
    everywhere=True,
)
def _set(options: Options) -> Result:
    row = limits.set_rate_limit(
        options["job_type"],
        options["amount"],
        options["per"],
        burst=options["burst"],
        firm=options["firm"],
        limit_key=options["limit_key"],
        counted_by=options["counted_by"],
        by=operator(),
    )
    return RATE_LIMITS.result(row, lambda row: f"Set: {row.pk}, {row}.")


_clear = RATE_LIMITS.operation(
    "clear",
    "Remove a rate limit; jobs that wait for it start as soon as workers are free.",
    row_ids("limit"),
    arguments.REASON,
    operate=limits.remove_rate_limit,
    text=lambda row: f"Cleared: {row.pk}, {row}.",
)


class Command(CommandGroup):
    """The rate limits of the queue."""

    help = "List, set and clear rate limits."
    subcommands = (_list, _set, _clear)
