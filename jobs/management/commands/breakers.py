"""`manage.py breakers`: list, open, close."""

from __future__ import annotations

from django.core.management.base import CommandError

from interfaces.commands import EXIT_USAGE
from jobs.management import arguments
from jobs.management.arguments import row_ids
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from jobs.queries.durations import probe_in_words
from jobs.queries.serializers.limits import BreakerSerializer
from jobs.states import BreakerState
from tenants.cli import operator

BREAKERS = Resource(
    "circuit breaker", lambda: CircuitBreaker.objects.select_related("firm"), BreakerSerializer
)

_list = BREAKERS.list(
    "List circuit breakers, the latest first.",
    columns=lambda: columns_of(
        "Breaker", "Firm", "Type", "Limit key", "State", "Trips", "Next probe", "Failure"
    ),
    cells=lambda row, now: [
        row.pk,
        row.firm.slug,
        row.job_type,
        row.limit_key or None,
        row.get_state_display(),
        row.trips,
        probe_in_words(row.probe_at, now) if row.state == BreakerState.OPEN else None,
        row.fingerprint or None,
    ],
    empty="No circuit breaker has recent failures to count.",
)


@subcommand(
    "open",
    "Hold a type's jobs of a firm back; after the cooldown one of them runs as a probe.",
    arguments.REQUIRED_TYPE,
    arguments.LIMIT_KEY,
    arguments.REQUIRED_REASON,
    firm_help="the firm whose jobs are held back; required",
)
def _open(options: Options) -> Result:
    if options["firm"] is None:
        raise CommandError("give --firm SLUG", returncode=EXIT_USAGE)
    row = breakers.open_breaker(
        options["job_type"],
        options["firm"],
        options["reason"],
        limit_key=options["limit_key"] or "",
        by=operator(),
    )
    return BREAKERS.result(row, lambda row: f"Opened: {_describe(row)}")


_close = BREAKERS.operation(
    "close",
    "The jobs that a breaker holds back may start. If they fail again, it opens again.",
    row_ids("breaker"),
    arguments.REQUIRED_REASON,
    operate=breakers.close_breaker,
    text=lambda row: f"Closed: {_describe(row)}",
)


def _describe(row: CircuitBreaker) -> str:
    return f"{row.pk}, {row} of {row.firm.slug}."


class Command(CommandGroup):
    """The circuit breakers of the queue."""

    help = "List circuit breakers; open and close them by hand."
    subcommands = (_list, _open, _close)
