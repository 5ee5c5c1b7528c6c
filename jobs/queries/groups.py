"""Open dead letters by fingerprint: the groups of the triage board."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Count, Max, Min, Q

from jobs.models import DeadLetterQueue
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB
from jobs.states import OPEN_RESOLUTIONS

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
    job_types: list[str] = field(default_factory=list)
    # Of the last day, oldest first, each of two hours.
    trend: list[int] = field(default_factory=lambda: [0] * TREND_PARTS)
    # The latest letter, with its job.
    sample: DeadLetterQueue | None = None
    # The firm that has it.
    sample_firm_id: int = 0

    def add(self, row: dict[str, Any]) -> None:
        """Add the letters of one firm."""
        self.count += row["letters"]
        self.firms.append((row["firm__slug"], row["letters"]))
        if self.first_seen is None or row["first"] < self.first_seen:
            self.first_seen = row["first"]
        if self.last_seen is None or row["last"] > self.last_seen:
            self.last_seen, self.sample_firm_id = row["last"], row["firm_id"]
        self.trend = [part + row[f"part_{n}"] for n, part in enumerate(self.trend)]


def dead_letter_groups(now: datetime) -> tuple[Sequence[Group], bool]:
    """Return the largest groups in scope, largest first, and whether there are more."""
    groups: dict[str, Group] = {}
    for row in _counted(now):
        groups.setdefault(row["fingerprint"], Group(row["fingerprint"])).add(row)
    ordered = sorted(groups.values(), key=lambda group: (-group.count, group.fingerprint))
    shown = ordered[:MOST_GROUPS]
    _add_samples(shown)
    for group in shown:
        group.firms.sort(key=lambda firm: (-firm[1], firm[0]))
    return shown, len(ordered) > len(shown)


def _open() -> Any:
    return DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS)


def _counted(now: datetime) -> Any:
    """Count the letters by fingerprint and firm, in one pass."""
    parts = {}
    for number in range(TREND_PARTS):
        start = now - TREND_PART * (TREND_PARTS - number)
        within = Q(moved_at__gt=start, moved_at__lte=start + TREND_PART)
        parts[f"part_{number}"] = Count("pk", filter=within)
    return (
        _open()
        .values("fingerprint", "firm_id", "firm__slug")
        .annotate(letters=Count("pk"), first=Min("moved_at"), last=Max("moved_at"), **parts)
        .order_by()
    )


def _add_samples(groups: Sequence[Group]) -> None:
    """Give each group its latest letter and the types of its jobs."""
    if not groups:
        return
    latest = [
        # SQLite compares times as text, and what it computes has more digits than what it stores.
        Q(
            firm_id=group.sample_firm_id,
            fingerprint=group.fingerprint,
            moved_at__gte=group.last_seen - timedelta(milliseconds=1),
        )
        for group in groups
        if group.last_seen is not None
    ]
    letters = _open().filter(reduce(or_, latest)).select_related("firm", "original_job")
    by_fingerprint = {
        letter.fingerprint: letter
        for letter in letters.defer(*LARGE_COLUMNS_OF_JOB).order_by("moved_at", "pk")
    }
    types: dict[str, Counter[str]] = defaultdict(Counter)
    counted = _open().filter(fingerprint__in=list(by_fingerprint)).order_by()
    for fingerprint, job_type, number in counted.values_list(
        "fingerprint", "original_job__job_type"
    ).annotate(Count("pk")):
        types[fingerprint][job_type] += number
    for group in groups:
        group.sample = by_fingerprint.get(group.fingerprint)
        group.job_types = [name for name, _ in types[group.fingerprint].most_common()]
