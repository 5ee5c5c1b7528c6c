"""Any mix of pauses, caps, rates and keys: no limit is exceeded, and no job waits for ever."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.engine.admission import Sweep, admit, sweep
from jobs.engine.claim import Claim
from jobs.engine.clock import database_now, stopped_at
from jobs.engine.demotion import Demotion, demote
from jobs.engine.outcomes import Completed, DeadLettered, Outcome, Released, Retry
from jobs.engine.transactions import in_transaction, run
from jobs.errors import WrongState
from jobs.models import JobQueue, Pause, RateLimit
from jobs.operations.limits import remove_rate_limit
from jobs.queue import enqueue, pause, resume, set_rate_limit
from jobs.states import LIVE, CountedBy, DeadReason
from tenants.models import Firm
from tests.queue_kit import FAILURE, finish, row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-20", "J-23", "J-24")]

# How many histories are tried: in the suite, and in `make chaos`.
SUITE, CHAOS = 30, 2_000
TYPES = {"test.work": "sync", "test.other": "export", "test.locked": "sync", "test.mailbox": "sync"}
TABLES = (
    "jobqueue",
    "concurrencylock",
    "pause",
    "ratelimit",
    "ratebucket",
    "attempt",
    "jobminute",
    "jobminutedelta",
)
OUTCOMES: dict[str, Outcome] = {
    "completes": Completed({}),
    "fails": Retry(5.0, FAILURE),
    "is given back": Released("because", 0.0),
}
ROUNDS, ROUND_SECONDS = 40, 60.0

firms = st.integers(0, 1)
types = st.sampled_from(sorted(TYPES))
limit_keys = st.sampled_from(["anna", "ben"])
adds = st.tuples(
    *(st.just("add"), firms, types, st.integers(0, 3), st.sampled_from("ab")),
    *(st.none() | limit_keys, st.integers(1, 4)),
)
# What workers do all the time.
work = st.one_of(
    st.tuples(st.just("claim"), st.integers(1, 6)),
    st.tuples(st.just("keep house")),
    st.tuples(st.just("take a step")),
    st.tuples(st.just("finish"), st.sampled_from(sorted(OUTCOMES))),
    st.tuples(st.just("crash after"), st.sampled_from(sorted(OUTCOMES))),
    st.tuples(st.just("tick"), st.sampled_from([0.1, 1.0, 7.0])),
)
limits = st.one_of(
    st.tuples(st.just("cap"), firms, st.sampled_from([0, 1, 2, None])),
    st.tuples(st.just("rate"), st.none() | firms, types, st.integers(1, 3)),
    st.tuples(
        *(st.just("rate of keys"), st.none() | firms, st.none() | types),
        *(st.none() | limit_keys, st.integers(1, 3)),
    ),
    st.tuples(st.just("rate of all"), types, st.integers(1, 3)),
    st.tuples(st.just("pause"), st.none() | firms, st.none() | types, st.none() | limit_keys),
    st.tuples(st.just("activate"), firms, st.booleans()),
    st.tuples(st.just("resume"), st.integers(0, 3)),
    st.tuples(st.just("no rate"), st.integers(0, 3)),
)
# Some work follows each change, because otherwise most histories would contain no work.
chapters = st.tuples(limits | adds, st.lists(work, min_size=2, max_size=6))


class History:
    """The history of one queue: its limits, and the jobs that have started."""

    def __init__(self, firm_ids: list[int]) -> None:
        self.firm_ids = firm_ids
        self.now = database_now()
        self.held: list[Claim] = []
        self.sweep, self.demotion = Sweep(), Demotion()
        # For each start since the rates last changed: when, which job, how many units.
        self.starts: list[tuple[datetime, Claim, int]] = []

    def do(self, name: str, *arguments: Any) -> None:
        """Take one step at this history's time."""
        with stopped_at(self.now):
            getattr(self, f"_{name.replace(' ', '_')}")(*arguments)

    def _firm(self, number: int | None) -> int | None:
        return None if number is None else self.firm_ids[number]

    def _add(
        self,
        firm: int,
        job_type: str,
        priority: int,
        key: str,
        limit_key: str | None,
        units: int,
    ) -> None:
        payload = {"name": key, "units": units}
        enqueue(
            job_type,
            payload,
            firm=self.firm_ids[firm],
            priority=priority,
            limit_key=limit_key,
        )

    def _tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _take_a_step(self) -> None:
        self.demotion.step()
        self.sweep.step()

    def _keep_house(self) -> None:
        demote()
        sweep()

    def _claim(self, limit: int) -> None:
        for one in take(limit):
            self.held.append(one)
            self.starts.append((self.now, one, row(one.job_id).limit_units))
            self._check(one)

    def _finish(self, outcome: str) -> None:
        while self.held:
            one = self.held.pop()
            admit(finish(one, outcome_of(one, outcome)).released_capacity)

    def _crash_after(self, outcome: str) -> None:
        """End the jobs in flight; nobody admits others in place of them."""
        while self.held:
            one = self.held.pop()
            finish(one, outcome_of(one, outcome))

    def _pause(self, firm: int | None, job_type: str | None, limit_key: str | None) -> None:
        with suppress(WrongState):  # the same is paused already
            pause(firm=self._firm(firm), job_type=job_type, limit_key=limit_key, reason="x")

    def _resume(self, pick: int) -> None:
        standing = rows(Pause)
        if standing:
            resume(standing[pick % len(standing)])

    def _cap(self, firm: int, most: int | None) -> None:
        Firm.objects.filter(pk=self.firm_ids[firm]).update(running_cap=most)
        # A lower cap holds back jobs that were admitted before only when these are demoted.
        demote()

    def _activate(self, firm: int, active: bool) -> None:
        Firm.objects.filter(pk=self.firm_ids[firm]).update(active=active)

    def _rate(self, firm: int | None, job_type: str, burst: int) -> None:
        set_rate_limit(job_type, 1, 5.0, burst=burst, firm=self._firm(firm))
        self.starts.clear()

    def _rate_of_keys(
        self, firm: int | None, job_type: str | None, limit_key: str | None, burst: int
    ) -> None:
        by_key = {"limit_key": limit_key, "counted_by": CountedBy.KEY}
        set_rate_limit(job_type, 1, 5.0, burst=burst, firm=self._firm(firm), **by_key)
        self.starts.clear()

    def _rate_of_all(self, job_type: str, burst: int) -> None:
        set_rate_limit(job_type, 1, 5.0, burst=burst, counted_by=CountedBy.ALL_FIRMS)
        self.starts.clear()

    def _no_rate(self, pick: int) -> None:
        standing = rows(RateLimit)
        if standing:
            remove_rate_limit(standing[pick % len(standing)])
            self.starts.clear()

    def _check(self, started: Claim) -> None:
        firm = Firm.objects.get(pk=started.firm_id)
        assert firm.active
        assert not [one for one in rows(Pause) if stops(one, started)]
        mine = [one for one in self.held if one.firm_id == started.firm_id]
        assert firm.running_cap is None or len(mine) <= firm.running_cap
        keys = Counter(one.lock_key for one in mine if one.lock_key is not None)
        assert set(keys.values()) <= {1}
        limits = rows(RateLimit)
        for bucket, limit in limits_of(limits, started).items():
            counted = [
                (moment, min(units, limit.burst))
                for moment, one, units in self.starts
                if bucket in limits_of(limits, one)
            ]
            for first, last in combinations_with_replacement(range(len(counted)), 2):
                seconds = (counted[last][0] - counted[first][0]).total_seconds()
                allowed = limit.burst + seconds * limit.amount / limit.per_seconds
                assert sum(units for _, units in counted[first : last + 1]) <= allowed + 0.001

    def let_it_run(self) -> None:
        """Let time pass until all jobs have ended that can; the limits stay as they are."""
        for _ in range(ROUNDS):
            if not self.stuck():
                break
            self.do("tick", ROUND_SECONDS)
            self.do("keep house")
            self.do("claim", 100)
            self.do("finish", "completes")

    def stuck(self) -> list[UUID]:
        """Return the jobs that have not ended although nothing holds them back."""
        no_room = {
            firm.pk
            for firm in Firm.objects.filter(pk__in=self.firm_ids)
            if not firm.active or firm.running_cap == 0
        }
        return [
            job.pk
            for job in rows(JobQueue)
            if job.status in LIVE
            and job.firm_id not in no_room
            and not any(stops(one, job) for one in rows(Pause))
        ]


def outcome_of(one: Claim, name: str) -> Outcome:
    """Return the outcome of this name; without an attempt left, a failure is a dead letter."""
    if name == "fails" and one.attempts >= one.max_attempts:
        return DeadLettered(DeadReason.EXHAUSTED, FAILURE)
    return OUTCOMES[name]


def stops(one: Pause, job: Claim | JobQueue) -> bool:
    """Say whether the pause holds back this job."""
    return (
        (one.everywhere or one.firm_id == job.firm_id)
        and one.job_type in ("", job.job_type)
        and one.limit_key in ("", job.limit_key)
    )


def limits_of(limits: list[RateLimit], job: Claim) -> dict[tuple[Any, ...], RateLimit]:
    """Return for each bucket that counts the job the limit that applies."""
    ranked: dict[tuple[Any, ...], list[RateLimit]] = defaultdict(list)
    for one in limits:
        if not (one.everywhere or one.firm_id == job.firm_id):
            continue
        if one.counted_by == "all_firms" and one.job_type == job.job_type:
            ranked["everybody", job.job_type].append(one)
        if one.counted_by == "firm" and one.job_type == job.job_type:
            ranked["firm", job.firm_id, job.job_type].append(one)
        for_key = job.limit_key is not None and one.limit_key in ("", job.limit_key)
        if one.counted_by == "key" and for_key and one.job_type in ("", job.job_type):
            ranked["key", job.firm_id, one.job_type, job.limit_key].append(one)
    # A firm's own limit comes before one for every firm, and one for this key before one for each.
    return {
        bucket: min(found, key=lambda one: (one.everywhere, one.limit_key == ""))
        for bucket, found in ranked.items()
    }


def begin_anew(firm_ids: list[int]) -> History:
    """Return an empty queue without limits."""
    for table in TABLES:
        in_transaction(lambda: run(f"DELETE FROM jobs_{table}", []))  # noqa: B023 - called at once
    Firm.objects.filter(pk__in=firm_ids).update(active=True, running_cap=None)
    return History(firm_ids)


def test_no_limit_is_exceeded_and_nobody_waits_for_ever(
    firm: Firm, other_firm: Firm, chaos: bool
) -> None:
    @settings(
        max_examples=CHAOS if chaos else SUITE,
        derandomize=not chaos,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(adds, min_size=8, max_size=20), st.lists(chapters, min_size=3, max_size=8))
    def holds(jobs: list[tuple[Any, ...]], told: list[tuple[Any, list[Any]]]) -> None:
        queue = begin_anew([firm.pk, other_firm.pk])
        for step in [*jobs, *(step for change, work in told for step in (change, *work))]:
            queue.do(*step)
        queue.let_it_run()
        assert queue.stuck() == []

    holds()
