"""`manage.py rate_limits`: list, set, clear."""

from __future__ import annotations

from jobs.management import arguments
from jobs.management.arguments import argument, row_id
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of, firm_of_limit
from jobs.models import RateLimit
from jobs.operations import limits
from jobs.queries.serializers.limits import RateLimitSerializer
from tenants.cli import operator

RATE_LIMITS = Resource(
    "rate limit", lambda: RateLimit.objects.select_related("firm"), RateLimitSerializer
)

_list = RATE_LIMITS.list(
    "List rate limits, the latest first.",
    columns=lambda: columns_of("Limit", "Firm", "Type", "Starts", "In seconds", "Burst"),
    cells=lambda row, _: [
        row.pk,
        firm_of_limit(row),
        row.job_type,
        row.amount,
        f"{row.per_seconds:g}",
        row.burst,
    ],
    empty="Nothing is limited.",
)


@subcommand(
    "set",
    "Let a type start no more often than this, each firm counted for itself.",
    arguments.REQUIRED_TYPE,
    argument("--amount", type=int, required=True, metavar="N", help="number of starts"),
    argument("--per", type=float, required=True, metavar="SECONDS", help="in this many seconds"),
    argument(
        "--burst", type=int, metavar="N", help="at once after a quiet time; else as the amount"
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
        by=operator(),
    )
    return RATE_LIMITS.result(row, lambda row: f"Set: {row.pk}, {row}.")


_clear = RATE_LIMITS.operation(
    "clear",
    "Take a rate limit away; what waits for it starts as fast as workers take it.",
    row_id("limit"),
    arguments.REASON,
    operate=limits.remove_rate_limit,
    text=lambda row: f"Cleared: {row.pk}, {row}.",
)


class Command(CommandGroup):
    """The rate limits of the queue."""

    help = "See, set and clear how often types start."
    subcommands = (_list, _set, _clear)
