"""Open dead letters by fingerprint: the groups of the triage board."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q, Window
from django.db.models.functions import RowNumber

from jobs.models import DeadLetterQueue
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB
from jobs.states import OPEN_RESOLUTIONS
from tenants.models import Firm

MOST_GROUPS = 200
# The trend is the letters of the last day, by parts of two hours.
TREND_PARTS = 12
TREND_PART = timedelta(hours=2)


@dataclass
class Group:
    """The open dead letters of one fingerprint in the firms in scope."""

    fingerprint: str
    count: int = 0
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    # The slug and the number of letters of each firm, the most affected first.
    firms: list[tuple[str, int]] = field(default_factory=list)
    # The most frequent first.
    job_types: list[str] = field(default_factory=list)
    # Of the last day, oldest first, each of two hours.
    trend: list[int] = field(default_factory=lambda: [0] * TREND_PARTS)
    # The latest letter, with its job.
    sample: DeadLetterQueue | None = None

    def add(self, job_type: str | None, letters: int, first: datetime, last: datetime) -> None:
        """Add the letters of one job type; the most frequent type comes first."""
        self.count += letters
        if job_type is not None:
            self.job_types.append(job_type)
        self.first_seen = min(first, self.first_seen or first)
        self.last_seen = max(last, self.last_seen or last)


def dead_letter_groups(now: datetime) -> tuple[Sequence[Group], bool]:
    """Return the largest groups in scope, largest first, and whether there are more.

    Counts, firms, trends and samples are separate queries of few columns each: one query by
    fingerprint and firm could return as many rows as there are letters.
    """
    groups: dict[str, Group] = {}
    counted = (
        _open()
        .values_list("fingerprint", "job_type")
        .annotate(letters=Count("pk"), first=Min("moved_at"), last=Max("moved_at"))
        .order_by("-letters", "job_type")
    )
    for fingerprint, *facts in counted:
        groups.setdefault(fingerprint, Group(fingerprint)).add(*facts)
    ordered = sorted(groups.values(), key=lambda group: (-group.count, group.fingerprint))
    shown = {group.fingerprint: group for group in ordered[:MOST_GROUPS]}
    if shown:
        _add_firms(shown)
        _add_trends(shown, now)
        _add_samples(shown)
    return list(shown.values()), len(ordered) > len(shown)


def _open() -> Any:
    return DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS)


def _of(groups: Collection[str]) -> Any:
    return _open().filter(fingerprint__in=groups)


def _add_firms(groups: Mapping[str, Group]) -> None:
    counted = _of(groups).values_list("fingerprint", "firm_id").annotate(letters=Count("pk"))
    found = list(counted.order_by())
    # In a query of its own, so that each slug is read once.
    slugs = dict(Firm.objects.filter(pk__in={row[1] for row in found}).values_list("pk", "slug"))
    for fingerprint, firm_id, letters in found:
        if firm_id in slugs:
            groups[fingerprint].firms.append((slugs[firm_id], letters))
    for group in groups.values():
        group.firms.sort(key=lambda firm: (-firm[1], firm[0]))


def _add_trends(groups: Mapping[str, Group], now: datetime) -> None:
    start = now - TREND_PART * TREND_PARTS
    parts = [
        Count("pk", filter=Q(moved_at__gt=since, moved_at__lte=since + TREND_PART))
        for since in (start + TREND_PART * number for number in range(TREND_PARTS))
    ]
    of_the_day = _of(groups).filter(moved_at__gt=start).values_list("fingerprint")
    counted = of_the_day.annotate(**{f"part_{number}": one for number, one in enumerate(parts)})
    for fingerprint, *trend in counted.order_by():
        groups[fingerprint].trend = trend


def _add_samples(groups: Mapping[str, Group]) -> None:
    newest_first = Window(RowNumber(), partition_by="fingerprint", order_by=["-moved_at", "-pk"])
    # The ids first, because the database would sort whole letters with all their columns.
    newest = _of(groups).annotate(place=newest_first).filter(place=1).values_list("pk", flat=True)
    letters = DeadLetterQueue.objects.filter(pk__in=list(newest))
    # Firms in a query of their own: a join would leave out the letters of a deleted firm.
    whole = letters.select_related("original_job").prefetch_related("firm")
    for letter in whole.defer(*LARGE_COLUMNS_OF_JOB):
        groups[letter.fingerprint].sample = letter
