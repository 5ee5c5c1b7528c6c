"""`manage.py rate_limits`: list, set, clear."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jobs.management import arguments
from jobs.management.arguments import argument, find_one, row_id
from jobs.management.subcommand import CommandGroup, Options, Result, list_subcommand, subcommand
from jobs.management.tables import columns_of
from jobs.models import RateLimit
from jobs.operations import limits
from jobs.queries.serializers.limits import RateLimitSerializer
from tenants.cli import operator


def _cells(row: RateLimit, _: datetime) -> Sequence[object]:
    return [
        row.pk,
        "every firm" if row.everywhere else row.firm.slug,
        row.job_type,
        row.amount,
        f"{row.per_seconds:g}",
        row.burst,
    ]


_list = list_subcommand(
    "List rate limits, the latest first.",
    rows=lambda _: RateLimit.objects.select_related("firm"),
    serializer=RateLimitSerializer,
    columns=lambda: columns_of("Limit", "Firm", "Type", "Starts", "In seconds", "Burst"),
    cells=_cells,
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
    return Result(RateLimitSerializer(row).data, f"Set: {row.pk}, {row}.")


@subcommand(
    "clear",
    "Take a rate limit away; what waits for it starts as fast as workers take it.",
    row_id("limit"),
    arguments.REASON,
)
def _clear(options: Options) -> Result:
    row = find_one(RateLimit.objects.select_related("firm"), "rate limit", options["id"])
    limits.clear_rate_limit(
        row.job_type,
        firm=None if row.everywhere else row.firm,
        reason=options["reason"],
        by=operator(),
    )
    return Result(RateLimitSerializer(row).data, f"Cleared: {row.pk}, {row}.")


class Command(CommandGroup):
    """The rate limits of the queue."""

    help = "See, set and clear how often types start."
    subcommands = (_list, _set, _clear)
