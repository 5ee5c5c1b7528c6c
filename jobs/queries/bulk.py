"""The rows that a bulk operation would change, by ids or filter, and totals by cause and firm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, When

from jobs.models import BulkMember, BulkRun, DeadLetterQueue, JobQueue
from jobs.queries.filters import filter_dead_letters, only_live
from jobs.queries.last_errors import class_name
from jobs.queries.lists import LARGE_COLUMNS
from jobs.queries.search import find_jobs
from jobs.queries.why_waiting import WaitReason, why_waiting
from jobs.states import (
    LIVE,
    OF_DEAD_LETTERS,
    OPEN_RESOLUTIONS,
    RETRYABLE,
    BulkOperation,
    BulkState,
    MemberState,
    Status,
)
from tenants.models import SYSTEM_SLUG, Firm

CAUSES_SHOWN = 50
# At most so many waiting jobs of a canary are asked why they wait.
CANARIES_ASKED = 5
# The statuses in which a job allows the operation. A dead letter allows one while it is open.
_ELIGIBLE: dict[BulkOperation, frozenset[Status]] = {
    BulkOperation.RETRY: RETRYABLE,
    BulkOperation.CANCEL: LIVE,
    BulkOperation.SET_PRIORITY: frozenset({Status.PENDING}),
}


@dataclass(frozen=True)
class Selection:
    """The rows that somebody chose: by id, all that meet a filter of their list, or a query set.

    If `rows` is given, `ids` narrow it, and `filters` only record how it was found. With `seen_at`,
    rows that changed after that time are left out.
    """

    ids: Sequence[UUID] | None = None
    filters: Mapping[str, Any] | None = None
    rows: QuerySet[Any] | None = None
    seen_at: datetime | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """What a run stores of the selection; the chosen rows themselves are its members."""
        if self.ids is not None:
            return {"ids": len(self.ids)}
        return {"filter": {name: str(value) for name, value in (self.filters or {}).items()}}


@dataclass(frozen=True)
class Cause:
    """How many dead letters have the same failure, or how many jobs the same type and status."""

    job_type: str
    cause: str
    fingerprint: str
    count: int

    @property
    def in_words(self) -> str:
        """The cause as lists show it."""
        return class_name(self.cause)


@dataclass(frozen=True)
class Totals:
    """How many rows a bulk operation would change; `causes` has the most frequent causes."""

    count: int
    causes: Sequence[Cause]
    more_causes: int
    # Each firm's slug and number of rows, without firms that are gone.
    firms: Sequence[tuple[str, int]]


def eligible_rows(operation: BulkOperation, selection: Selection) -> QuerySet[Any]:
    """Return the chosen rows in scope whose state allows the operation now."""
    rows: QuerySet[Any]
    if operation in OF_DEAD_LETTERS:
        rows = DeadLetterQueue.objects.all() if selection.rows is None else selection.rows
        rows = rows.filter(resolution__in=OPEN_RESOLUTIONS)
        if selection.seen_at is not None:
            decided = Q(reviewed_at__gt=selection.seen_at)
            rows = rows.filter(moved_at__lte=selection.seen_at).exclude(decided)
        narrow: Any = filter_dead_letters
    else:
        rows = JobQueue.objects.all() if selection.rows is None else selection.rows
        if operation is not BulkOperation.RETRY:
            rows = only_live(rows)
        if operation is not BulkOperation.CANCEL:
            rows = rows.filter(status__in=_ELIGIBLE[operation])
        if selection.seen_at is not None:
            rows = rows.filter(updated_at__lte=selection.seen_at)
        narrow = _jobs_found
    if selection.ids is not None:
        return rows.filter(pk__in=set(selection.ids))
    if selection.rows is not None:
        return rows
    chosen: QuerySet[Any] = narrow(rows, **(selection.filters or {}))
    return chosen


def _jobs_found(jobs: QuerySet[JobQueue], **filters: Any) -> QuerySet[JobQueue]:
    # All rows, not only a page of the search: a bulk run has no next page.
    return find_jobs(jobs, **filters).rows


def totals_of(operation: BulkOperation, rows: QuerySet[Any]) -> Totals:
    """Count the rows by cause and by firm; jobs in one pass, because there may be many."""
    if operation in OF_DEAD_LETTERS:
        firms = Counter(dict(rows.order_by().values_list("firm_id").annotate(number=Count("pk"))))
        by_cause = rows.order_by().values_list("job_type", "error_class", "fingerprint")
        causes = [
            Cause(found[0] or "", *found[1:]) for found in by_cause.annotate(number=Count("pk"))
        ]
    else:
        firms, of_kinds = Counter[int](), Counter[tuple[str, str]]()
        by_both = rows.order_by().values_list("firm_id", "job_type", "status")
        for firm_id, job_type, status, number in by_both.annotate(number=Count("pk")):
            firms[firm_id] += number
            of_kinds[job_type, status] += number
        causes = [Cause(*kind, "", number) for kind, number in of_kinds.items()]
    causes.sort(key=lambda one: (-one.count, one.job_type, one.cause, one.fingerprint))
    # In a query of its own: in a join PostgreSQL might expect few rows and compare each with every
    # firm.
    slugs = Firm.objects.filter(pk__in=firms).values_list("pk", "slug")
    by_firm = sorted(((slug, firms[pk]) for pk, slug in slugs), key=lambda one: (-one[1], one[0]))
    more = max(len(causes) - CAUSES_SHOWN, 0)
    return Totals(firms.total(), causes[:CAUSES_SHOWN], more, by_firm)


@dataclass(frozen=True)
class RunDetails:
    """A bulk run, its job's status ("" if that is deleted), why the job waits, and the refusals."""

    run: BulkRun
    job_status: str
    reasons: Sequence[WaitReason]
    refusals: Sequence[tuple[str, int]]


def details_of_run(run: BulkRun) -> RunDetails:
    """Return the run with what became of its members."""
    job = _job_of(run)
    refused = BulkMember.objects.filter(run=run, state=MemberState.REFUSED)
    counted = refused.values_list("note").annotate(number=Count("pk"))
    return RunDetails(
        run,
        job.status if job else "",
        _why_waiting(run, job),
        list(counted.order_by("-number", "note")),
    )


def selection_in_words(run: BulkRun) -> str:
    """Say which rows the run was started for: those ticked, or all that met a filter."""
    ids, filters = run.selection.get("ids"), run.selection.get("filter")
    if ids is not None:
        return "One chosen row" if ids == 1 else f"{ids:,} chosen rows"
    if filters is None:
        # Runs of earlier versions did not store their selection.
        return "Rows of a list"
    # `q` is the list's parameter for its search.
    named = {("search" if name == "q" else name): value for name, value in filters.items()}
    return ", ".join(f"{name}: {value}" for name, value in named.items()) or "All of the list"


def is_on_every_firm(run: BulkRun) -> bool:
    """Say whether the run has members of other firms; not every run of the system firm has."""
    return run.firm.is_system and run.members.exclude(firm=run.firm_id).exists()


def with_reach(runs: QuerySet[BulkRun]) -> QuerySet[BulkRun]:
    """Give each run `on_every_firm`, as `is_on_every_firm` says."""
    others = BulkMember.objects.filter(run=OuterRef("pk")).exclude(firm=OuterRef("firm"))
    return runs.annotate(
        on_every_firm=Case(When(firm__slug=SYSTEM_SLUG, then=Exists(others)), default=False)
    )


def canary_in_words(run: BulkRun) -> str | None:
    """Say how many members go first, and when the run stops then; None for a run without a canary."""
    size = run.canary_size
    return (
        f"{size:,}; the run stops if more than {run.canary_max_failure_rate:.0%} fail again"
        if size
        else None
    )


def why_run_waits(run: BulkRun) -> list[WaitReason]:
    """Return why the job of a run that is not over waits."""
    return _why_waiting(run, _job_of(run))


def why_canary_waits(run: BulkRun) -> list[WaitReason]:
    """Return why a job of the run's canary waits: the reasons of the first one that has any."""
    jobs = JobQueue.objects.select_related("firm").defer(*LARGE_COLUMNS)
    waiting = jobs.filter(pk__in=run.canary_job_ids, status=Status.PENDING).order_by("job_id")[
        :CANARIES_ASKED
    ]
    return next(filter(None, map(why_waiting, waiting)), [])


def _job_of(run: BulkRun) -> JobQueue | None:
    jobs = JobQueue.objects.select_related("firm").defer(*LARGE_COLUMNS)
    return jobs.filter(pk=run.job_id, firm_id=run.firm_id).first()


def _why_waiting(run: BulkRun, job: JobQueue | None) -> list[WaitReason]:
    return why_waiting(job) if job and run.state == BulkState.RUNNING else []
