"""`manage.py breakers`: list, open, close."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.core.management.base import CommandError
from django.db.models import QuerySet

from jobs.management import arguments
from jobs.management.arguments import EXIT_USAGE, find_one, row_id
from jobs.management.subcommand import CommandGroup, Options, Result, list_subcommand, subcommand
from jobs.management.tables import columns_of
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from jobs.queries.durations import since_in_words
from jobs.queries.serializers.limits import BreakerSerializer
from jobs.states import BreakerState
from tenants.cli import operator


def _cells(row: CircuitBreaker, now: datetime) -> Sequence[object]:
    probe_at = row.probe_at if row.state == BreakerState.OPEN else None
    return [
        row.pk,
        row.firm.slug,
        row.job_type,
        row.get_state_display(),
        row.trips,
        None if probe_at is None else since_in_words(probe_at, now),
        row.fingerprint or None,
    ]


_list = list_subcommand(
    "List circuit breakers, the latest first.",
    rows=lambda _: _breakers(),
    serializer=BreakerSerializer,
    columns=lambda: columns_of(
        "Breaker", "Firm", "Type", "State", "Trips", "Tried again", "Failure"
    ),
    cells=_cells,
    empty="Nothing has failed of late: no breaker counts.",
)


@subcommand(
    "open",
    "Hold a type's jobs of a firm back; after the cooldown one is tried.",
    arguments.REQUIRED_TYPE,
    arguments.REQUIRED_REASON,
)
def _open(options: Options) -> Result:
    if options["firm"] is None:
        raise CommandError("give --firm SLUG", returncode=EXIT_USAGE)
    breakers.open_breaker(options["job_type"], options["firm"], options["reason"], by=operator())
    return _result(_breakers().get(job_type=options["job_type"]), "Opened")


@subcommand(
    "close",
    "Let the jobs run that a breaker holds back; should they fail again, it opens again.",
    row_id("breaker"),
    arguments.REQUIRED_REASON,
)
def _close(options: Options) -> Result:
    row = find_one(_breakers(), "circuit breaker", options["id"])
    breakers.close_breaker(row, options["reason"], by=operator())
    return _result(_breakers().get(pk=row.pk), "Closed")


def _breakers() -> QuerySet[CircuitBreaker]:
    rows: QuerySet[CircuitBreaker] = CircuitBreaker.objects.select_related("firm")
    return rows


def _result(row: CircuitBreaker, done: str) -> Result:
    text = f"{done}: {row.pk}, {row.job_type} of {row.firm.slug}."
    return Result(BreakerSerializer(row).data, text)


class Command(CommandGroup):
    """The circuit breakers of the queue."""

    help = "See which types are not tried for which firm; open and close by hand."
    subcommands = (_list, _open, _close)
