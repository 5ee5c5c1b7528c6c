"""Which types fail now and which firms enqueue most, read from only the newest rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Min

from jobs.engine.rescue import NOT_RUNNING, NOT_STARTED
from jobs.engine.rollups import RECOVERED_SECONDS
from jobs.models import Attempt, FailingType, JobQueue
from jobs.models.base import id_at
from jobs.queries.filters import CLOCK_MARGIN
from jobs.states import AttemptEnd

FAILURES = (
    AttemptEnd.RETRIED,
    AttemptEnd.DEAD_LETTERED,
    AttemptEnd.FAILED,
    AttemptEnd.RESCUED,
)
# A dead worker had claimed these jobs and did not run them: they did not fail, and used no attempt.
NO_FAILURES = (NOT_STARTED.error_class, NOT_RUNNING.error_class)
RECENT = timedelta(seconds=RECOVERED_SECONDS)
# The trend covers twice that time, in parts of five minutes, oldest first.
TREND_PARTS = 6
TREND_PART = 2 * RECENT / TREND_PARTS
# If there are more failures, or new jobs, only so many of the newest are read.
MOST_READ = 5000
TYPES_SHOWN = 10
FLOOD_WINDOW = timedelta(minutes=5)


@dataclass
class FailingNow:
    """A type of which attempts failed in the last quarter of an hour."""

    job_type: str
    since: datetime
    # The id, job and error of the latest attempt that failed as most did.
    latest: UUID
    job_id: UUID
    error_class: str = ""
    error: str = ""
    recent: int = 0
    trend: list[int] = field(default_factory=lambda: [0] * TREND_PARTS)

    @property
    def rises(self) -> int:
        """1 where more failed in this quarter of an hour than in the one before, -1 where less."""
        half = TREND_PARTS // 2
        before, after = sum(self.trend[:half]), sum(self.trend[half:])
        return (after > before) - (after < before)


@dataclass(frozen=True)
class Failing:
    """The types that fail now, most failures first, and how many more there are.

    `capped` says that there were more failures than were read.
    """

    types: list[FailingNow]
    more: int
    capped: bool


def failing_now(now: datetime) -> Failing:
    """Return what fails in the firms in scope, read from the newest attempts."""
    start = now - 2 * RECENT
    newest = (
        Attempt.objects.filter(
            id__gte=id_at(start - CLOCK_MARGIN), ended_at__gt=start, end__in=FAILURES
        )
        .exclude(end=AttemptEnd.RESCUED, error_class__in=NO_FAILURES)
        .order_by("-id")
        .values_list("id", "job_id", "job__job_type", "ended_at", "error_class")[:MOST_READ]
    )
    types: dict[str, FailingNow] = {}
    alike: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], tuple[UUID, UUID]] = {}
    read = 0
    for attempt_id, job_id, job_type, ended_at, error_class in newest:
        read += 1
        found = types.get(job_type)
        if found is None:
            found = types[job_type] = FailingNow(
                job_type, ended_at, attempt_id, job_id, error_class
            )
        found.since = min(found.since, ended_at)
        if now - ended_at <= RECENT:
            found.recent += 1
            alike[job_type, error_class] += 1
            # Attempts are read newest first, so this is the latest with its error.
            latest.setdefault((job_type, error_class), (attempt_id, job_id))
        part = TREND_PARTS - 1 - int((now - ended_at) / TREND_PART)
        found.trend[min(max(part, 0), TREND_PARTS - 1)] += 1
    failing = [one for one in types.values() if one.recent]
    failing.sort(key=lambda one: (-one.recent, one.job_type))
    for one in failing:
        # One job that was lost with its worker must not hide why all the others failed.
        one.error_class = _most_frequent(one.job_type, alike)
        one.latest, one.job_id = latest[one.job_type, one.error_class]
    _add_starts(failing, now)
    _add_errors(failing[:TYPES_SHOWN])
    more = len(failing[TYPES_SHOWN:])
    return Failing(failing[:TYPES_SHOWN], more, capped=read == MOST_READ)


def _most_frequent(job_type: str, alike: Counter[tuple[str, str]]) -> str:
    """Return the class of most errors of the type; of several, the one that was seen first."""
    of_type = {name: number for (of, name), number in alike.items() if of == job_type}
    return max(of_type, key=of_type.__getitem__)


def _add_starts(failing: list[FailingNow], now: datetime) -> None:
    """Set since when the types fail, which may be days: workers store that."""
    noted = FailingType.objects.filter(last_failed_at__gt=now - 2 * RECENT)
    starts = dict(noted.values_list("job_type").annotate(Min("failing_since")).order_by())
    for one in failing:
        one.since = min(one.since, starts.get(one.job_type, one.since))


def _add_errors(failing: list[FailingNow]) -> None:
    rows = Attempt.objects.filter(id__in=[one.latest for one in failing])
    messages = dict(rows.values_list("id", "message"))
    for one in failing:
        one.error = messages.get(one.latest, "")


def enqueue_rates(now: datetime) -> dict[int, float]:
    """Return how many jobs a minute each firm in scope enqueued lately, by its id.

    If there are more than `MOST_READ` new jobs, the rate is that of the newest ones.
    """
    start = now - FLOOD_WINDOW
    newest = list(
        JobQueue.objects.filter(job_id__gte=id_at(start - CLOCK_MARGIN), created_at__gt=start)
        .order_by("-job_id")
        .values_list("firm_id", "created_at")[:MOST_READ]
    )
    if not newest:
        return {}
    if len(newest) == MOST_READ:
        start = min(created_at for _, created_at in newest)
    minutes = max((now - start).total_seconds(), 1.0) / 60
    return {firm: jobs / minutes for firm, jobs in Counter(f for f, _ in newest).items()}
