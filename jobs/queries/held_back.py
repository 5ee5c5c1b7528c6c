"""What holds due jobs back: for a job, for a group of jobs, and as a filter.

The limits in force are read once, whatever the reader's scope, because a limit for every firm holds
back the reader's jobs too. There are few, however many jobs there are. Each becomes a rule about
columns of a job, for Python or for a query; the first rule that covers a job gives the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q

from jobs.engine import dialects
from jobs.engine.limit_sql import COUNTED, LIMITED_FIRM
from jobs.engine.rates import BucketKey
from jobs.engine.transactions import fetch, reading
from jobs.models import CircuitBreaker, JobQueue, Pause
from jobs.queries.short_buckets import short_buckets
from jobs.queries.why_waiting import WaitCode
from jobs.states import BreakerState, CountedBy, Status
from tenants.scope import require_scope

# What can hold a due job back, in the order in which an operator would check it.
HELD_BACK = (
    WaitCode.PAUSED,
    WaitCode.FIRM_INACTIVE,
    WaitCode.BREAKER,
    WaitCode.CAPPED,
    WaitCode.RATE_LIMITED,
    WaitCode.LOCKED,
)
# Somebody set these on purpose, so jobs that wait for them are no reason for an alarm.
INTENDED = frozenset(
    {WaitCode.PAUSED, WaitCode.FIRM_INACTIVE, WaitCode.CAPPED, WaitCode.RATE_LIMITED}
)
# The value of the filter for jobs that are held back for any reason.
ANYTHING = "anything"
WAITS_FOR_LOCK = Q(waiting=True, lock_key__isnull=False)


class JobFacts(NamedTuple):
    """The columns of a job that limits can name; jobs with equal facts are held back alike."""

    category: str = ""
    job_type: str = ""
    firm_id: int = 0
    # Empty if the job has none.
    limit_key: str = ""
    admitted: bool = False
    waits_for_lock: bool = False


@dataclass(frozen=True)
class Rule:
    """Holds back the jobs that have, in each of these columns, one of its values."""

    code: WaitCode
    columns: Mapping[str, Collection[Any]]
    # The jobs that the rule spares: a breaker's probes.
    besides: Collection[Any] = ()

    def covers(self, facts: JobFacts) -> bool:
        """Say whether the rule holds such jobs back."""
        return all(getattr(facts, column) in values for column, values in self.columns.items())

    @property
    def condition(self) -> Q:
        """The condition of a query for the jobs that it covers."""
        # Never an empty Q, which Django would drop from an OR.
        condition = ~Q(pk__in=self.besides)
        for column, values in self.columns.items():
            condition &= _condition(column, values)
        return condition


def _condition(column: str, values: Collection[Any]) -> Q:
    if column == "waits_for_lock":
        return WAITS_FOR_LOCK
    found = Q(**{f"{column}__in": values})
    return found | Q(limit_key__isnull=True) if column == "limit_key" and "" in values else found


@dataclass(frozen=True)
class LimitsInForce:
    """The pauses and the breakers that are not closed, and the rules of all limits in force."""

    now: datetime
    pauses: list[Pause]
    breakers: list[CircuitBreaker]
    rules: list[Rule]
    _of_type: dict[str, list[Rule]] = field(default_factory=dict, init=False, repr=False)

    @property
    def columns(self) -> set[str]:
        """The columns that the rules name; the other columns do not change the reason."""
        return {column for rule in self.rules for column in rule.columns}

    def reason(self, facts: JobFacts, job_id: Any = None) -> WaitCode | None:
        """Return what holds back due jobs with these facts, or the due job with this id."""
        found = (
            rule.code
            for rule in self._rules_of(facts.job_type)
            if rule.covers(facts) and job_id not in rule.besides
        )
        return next(found, None)

    def _rules_of(self, job_type: str) -> list[Rule]:
        if job_type not in self._of_type:
            self._of_type[job_type] = [
                rule for rule in self.rules if job_type in rule.columns.get("job_type", (job_type,))
            ]
        return self._of_type[job_type]

    def reason_of(self, job: JobQueue) -> WaitCode | None:
        """Return why a pending job waits, "scheduled" too; None if nothing is in its way."""
        if job.status != Status.PENDING:
            return None
        if job.scheduled_at > self.now:
            return WaitCode.SCHEDULED
        waits_for_lock = job.waiting and job.lock_key is not None
        facts = JobFacts(
            *(job.category, job.job_type, job.firm_id, job.limit_key or ""),
            *(job.admitted, waits_for_lock),
        )
        return self.reason(facts, job.pk)

    def held_back(self, code: str) -> Q:
        """Return the condition for the due jobs held back by this code, or by `ANYTHING`."""
        wanted, covered = Q(pk__in=[]), Q(pk__in=[])
        for rule in self.rules:
            if code in (rule.code, ANYTHING):
                wanted |= rule.condition & ~covered
            covered |= rule.condition
        due = Q(status=Status.PENDING, scheduled_at__lte=self.now)
        return (Q(ready=True) | Q(waiting=True)) & due & wanted


def limits_in_force() -> LimitsInForce:
    """Return the limits that hold back jobs of the firms in scope now."""
    firm_ids = require_scope().firm_ids
    return reading(lambda: _read(firm_ids))


def _read(firm_ids: frozenset[int] | None) -> LimitsInForce:
    why = "limits that hold back the caller's jobs"
    dialect = dialects.current()
    ((moment, any_limited_firm, any_bucket),) = fetch(
        f"""
        SELECT {dialect.now_sql()}, EXISTS (SELECT 1 FROM tenants_firm f WHERE {LIMITED_FIRM}),
            EXISTS (SELECT 1 FROM jobs_ratebucket)
        """,
        [],
    )
    now = dialect.read_time(moment)
    own = Q(firm_id__isnull=False) if firm_ids is None else Q(firm_id__in=firm_ids)
    pauses = Pause.objects.unscoped(why).filter(Q(until__isnull=True) | Q(until__gt=now))
    pauses = pauses.filter(own | Q(everywhere=True)).select_related("firm")
    breakers = CircuitBreaker.objects.unscoped(why).filter(
        own, state__in=[BreakerState.OPEN, BreakerState.HALF_OPEN]
    )
    found = LimitsInForce(
        now,
        list(pauses.order_by("-everywhere", "category", "job_type", "pk")),
        list(breakers.select_related("firm").order_by("job_type", "pk")),
        [],
    )
    inactive, full = _limited_firms(firm_ids) if any_limited_firm else ((), ())
    rules = [
        *_pause_rules(found.pauses),
        *_rules(WaitCode.FIRM_INACTIVE, {"firm_id": inactive}),
        *_breaker_rules(found.breakers),
        *_rules(WaitCode.CAPPED, {"firm_id": full, "admitted": (False,)}),
    ]

    def may_start(*facts: Any) -> bool:
        return not any(rule.covers(JobFacts(*facts)) for rule in rules)

    buckets = short_buckets(may_start, firm_ids) if any_bucket else ()
    locked = Rule(WaitCode.LOCKED, {"waits_for_lock": (True,)})
    found.rules.extend([*rules, *_rate_rules(buckets), locked])
    return found


def _rules(code: WaitCode, columns: Mapping[str, Collection[Any]]) -> Iterator[Rule]:
    """Yield the rule, unless it covers nothing."""
    if all(columns.values()):
        yield Rule(code, columns)


def _pause_rules(pauses: Iterable[Pause]) -> Iterator[Rule]:
    """Yield a rule for each paused category, type and limit key, with the firms of the pauses."""
    firms: dict[tuple[str, str, str], set[int] | None] = {}
    for pause in pauses:
        kind = pause.category, pause.job_type, pause.limit_key
        known = firms.setdefault(kind, set())
        if pause.everywhere or known is None:
            firms[kind] = None
        else:
            known.add(pause.firm_id)
    for kind, firm_ids in firms.items():
        named = zip(("category", "job_type", "limit_key"), kind, strict=True)
        columns: dict[str, Collection[Any]] = {name: (value,) for name, value in named if value}
        if firm_ids is not None:
            columns["firm_id"] = firm_ids
        yield Rule(WaitCode.PAUSED, columns)


def _breaker_rules(breakers: Iterable[CircuitBreaker]) -> Iterator[Rule]:
    """Yield a rule for each type and set of limit keys whose breakers are open in the same firms."""
    of_firm: dict[tuple[str, int], list[CircuitBreaker]] = defaultdict(list)
    for breaker in breakers:
        of_firm[breaker.job_type, breaker.firm_id].append(breaker)
    alike: dict[tuple[str, frozenset[str]], list[CircuitBreaker]] = defaultdict(list)
    for (job_type, _), rows in of_firm.items():
        alike[job_type, frozenset(row.limit_key for row in rows)].extend(rows)
    for (job_type, keys), rows in alike.items():
        firm_ids = {row.firm_id for row in rows}
        columns = {"job_type": (job_type,), "firm_id": firm_ids, "limit_key": keys}
        probes = {row.probe_job_id for row in rows if row.probe_job_id is not None}
        yield Rule(WaitCode.BREAKER, columns, probes)


def _rate_rules(buckets: Iterable[BucketKey]) -> Iterator[Rule]:
    """Yield a rule for each type and set of limit keys whose buckets are short in the same firms."""
    keys_of: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for bucket in buckets:
        keys_of[bucket.counted_by, bucket.job_type, bucket.firm_id].add(bucket.limit_key)
    firms_of: dict[tuple[str, str, frozenset[str]], set[int]] = defaultdict(set)
    for (counted_by, job_type, firm_id), found in keys_of.items():
        firms_of[counted_by, job_type, frozenset(found)].add(firm_id)
    for (counted_by, job_type, keys), firm_ids in firms_of.items():
        columns: dict[str, Collection[Any]] = {"admitted": (False,)}
        if job_type:
            columns["job_type"] = (job_type,)
        if counted_by == CountedBy.KEY:
            columns["limit_key"] = keys
        if counted_by != CountedBy.ALL_FIRMS:
            columns["firm_id"] = firm_ids
        yield Rule(WaitCode.RATE_LIMITED, columns)


def _limited_firms(firm_ids: frozenset[int] | None) -> tuple[Collection[int], Collection[int]]:
    """Return the inactive firms, and those that run as many jobs as their cap allows."""
    rows = fetch(
        f"""
        SELECT f.id, f.active, f.running_cap <= (
            SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = f.id
        ) FROM tenants_firm f WHERE {LIMITED_FIRM}
        """,
        [],
    )
    own = [row for row in rows if firm_ids is None or row[0] in firm_ids]
    inactive = frozenset(pk for pk, active, _ in own if not active)
    return inactive, frozenset(pk for pk, _, is_full in own if is_full)
