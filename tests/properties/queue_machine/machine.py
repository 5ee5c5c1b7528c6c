"""The machine: one random act after the other, done to the queue and to its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from hypothesis.strategies import (
    booleans,
    fixed_dictionaries,
    integers,
    lists,
    none,
    sampled_from,
    tuples,
)

from jobs.context import Signals
from jobs.engine import cancel as canceling
from jobs.engine import release as releasing
from jobs.engine import reprocess as deciding
from jobs.engine import rescue as rescuing
from jobs.engine import retry as retrying
from jobs.engine.admit import admit, free_orphan_slots, sweep
from jobs.engine.claim import Claim, Turns, claim
from jobs.engine.clock import stopped_at
from jobs.engine.expire import expire
from jobs.engine.insert import NewJob, insert
from jobs.engine.lease import WorkerInfo, heartbeat, mark_processing, note_running, register
from jobs.engine.prune import prune
from jobs.engine.settle import Settlement, settle
from jobs.engine.transactions import in_transaction, reading
from jobs.errors import JobError
from jobs.executor import execute
from tenants.models import Firm
from tests.properties.queue_machine import operators, tables, upkeep, work
from tests.properties.queue_machine.invariants import check
from tests.properties.queue_machine.kinds import KINDS, Does, Middle, planned
from tests.properties.queue_machine.state import Job, LockKey, State

T = TypeVar("T")

WORKERS = 3
REASON = "because"
# Odd numbers, so that no two spans end at the same moment by chance.
TICKS = (2, 31, 61, 703, 3701, 8 * upkeep.DAY + 7, 91 * upkeep.DAY + 11)

_worker = integers(0, WORKERS - 1)
_pick = integers(0, 99)
_specs = fixed_dictionaries(
    {
        "firm": integers(0, 2),
        "kind": sampled_from(sorted(KINDS)),
        "priority": integers(0, 3),
        "delay": sampled_from([0, 0, 0, 47, 709]),
        "expires": none() | sampled_from([53, 907]),
        "lock_key": none() | sampled_from(["a", "b"]),
        "key": none() | sampled_from(["x", "y"]),
    }
)


def outcome(call: Callable[[], object]) -> object:
    """Return what the call returns, or the class of its refusal."""
    try:
        return call()
    except JobError as refusal:
        return type(refusal)


class QueueMachine(RuleBasedStateMachine):
    """Does everything twice, once in the database and once in the model, and compares.

    Claims stay in their bundle: they are settled and released late, twice, or never.
    """

    claims: Bundle[Claim] = Bundle("claims")
    jobs: Bundle[UUID] = Bundle("jobs")
    looks: Bundle[tuple[list[Any], list[upkeep.Decision]]] = Bundle("looks")

    def __init__(self, firms: Sequence[Firm]) -> None:
        super().__init__()
        self.firms = firms
        self.state = State()
        self.enqueued = 0
        self.begun = 0
        self.given: list[Claim] = []
        self.over: set[UUID] = set()
        self.highest_token = 0
        self.fences: set[int] = set()
        self.worker_ids: list[UUID] = []
        self.turns: list[Turns] = []
        tables.wipe()

    def _now(self, act: Callable[[], T]) -> T:
        """Act at the model's time."""
        with stopped_at(tables.moment(self.state.now)):
            return act()

    def _same(self, engine: Callable[[], object], model: Callable[[], object]) -> None:
        """Act in both; they return the same, or refuse alike."""
        done, predicted = outcome(lambda: self._now(engine)), outcome(model)
        assert done == predicted, f"the engine said {done}, the model {predicted}"

    @initialize()
    def start(self) -> None:
        for _ in range(WORKERS):
            self.worker_ids.append(self._begin())
            self.turns.append(Turns())

    def _begin(self) -> UUID:
        self.begun += 1
        worker_id = UUID(int=self.begun)
        info = WorkerInfo(
            worker_id=worker_id,
            host="test",
            pid=self.begun,
            version="0",
            categories=(),
            job_types=(),
            concurrency=1,
        )
        self._now(lambda: register(info))
        work.register(self.state, worker_id)
        return worker_id

    @rule(seconds=sampled_from(TICKS))
    def time_goes_by(self, seconds: int) -> None:
        self.state.now += seconds

    @rule(target=jobs, specs=lists(_specs, min_size=1, max_size=4), admitted=booleans())
    def enqueue(self, specs: list[dict[str, Any]], admitted: bool) -> Any:
        new = [self._job(**spec) for spec in specs]
        rows = [self._row(job) for job in new]
        self._same(lambda: insert(rows), lambda: work.enqueue(self.state, new))
        if admitted:
            self._hand_over({(job.firm_id, job.lock_key) for job in new if job.lock_key})
        return multiple(*(job.job_id for job in new if job.job_id in self.state.jobs))

    def _job(self, *, firm: int, kind: str, delay: int, expires: int | None, **rest: Any) -> Job:
        self.enqueued += 1
        return Job(
            # Ids in no order: who came first shows in the time alone.
            job_id=UUID(int=self.enqueued * 7919 % 10007),
            firm_id=self.firms[firm].pk,
            kind=KINDS[kind],
            scheduled=self.state.now + delay,
            expires=None if expires is None else self.state.now + expires,
            **rest,
        )

    def _row(self, job: Job) -> NewJob:
        return NewJob(
            job_id=job.job_id,
            firm_id=job.firm_id,
            category=job.kind.category,
            job_type=job.kind.name,
            payload_version="1.0",
            payload=f'{{"tenant_id":{job.firm_id},"version":"1.0","correlation_id":"c"}}',
            correlation_id="c",
            priority=job.priority,
            max_attempts=job.kind.max_attempts,
            delay=job.scheduled - self.state.now,
            expires_at=None if job.expires is None else tables.moment(job.expires),
            lock_key=job.lock_key,
            lock_limit=job.kind.lock_limit,
            idempotency_key=job.key,
            once_only=job.kind.once_only,
        )

    @rule(
        target=claims,
        worker=_worker,
        limit=integers(1, 6),
        categories=sampled_from([(), (), ("sync",), ("export",)]),
    )
    def claim(self, worker: int, limit: int, categories: tuple[str, ...]) -> Any:
        worker_id, turns = self.worker_ids[worker], self.turns[worker]
        served = dict(turns.served)
        chosen = work.claim(self.state, limit, served, categories)
        taken = self._now(lambda: claim(worker_id, limit, turns, categories=categories))
        assert [one.job_id for one in taken] == [job.job_id for job in chosen]
        assert turns.served == served
        for one, job in zip(taken, chosen, strict=True):
            assert one.lease_token > self.highest_token
            work.take(self.state, job, worker_id, one.lease_token)
            told = (one.attempts, one.series, one.deaths, one.cancel_requested)
            assert told == (job.attempts, job.series, job.deaths, job.cancel_requested)
        self.given += taken
        self._raise_highest({one.lease_token for one in taken})
        return multiple(*taken)

    def _raise_highest(self, tokens: set[int]) -> None:
        self.highest_token = max(tokens, default=self.highest_token)

    @rule(one=claims)
    def start_handler(self, one: Claim) -> None:
        known = self.state.workers.get(one.worker_id)
        running = (known.running if known else frozenset()) | {one.job_id}
        self._same(
            lambda: note_running(one.worker_id, running),
            lambda: work.note_running(self.state, one.worker_id, running),
        )

    @rule(one=claims)
    def show_as_processing(self, one: Claim) -> None:
        self._now(lambda: mark_processing([one]))
        work.mark_processing(self.state, [one])

    @precondition(lambda self: self.given)
    @rule(
        batch=lists(tuples(claims, sampled_from(Does)), min_size=1, max_size=3),
        handed_over=booleans(),
    )
    def settle(self, batch: list[tuple[Claim, Does]], handed_over: bool) -> None:
        endings = [(one, work.ending(self.state, one, does)) for one, does in batch]
        settlements = [Settlement(one, self._perform(one, does), 0.5) for one, does in batch]
        report = self._now(lambda: settle(settlements))
        told = work.settle(self.state, endings)
        assert report.statuses == told.statuses
        assert {one.lease_token for one in report.stale} == told.stale
        if handed_over:
            self._hand_over(report.freed_locks)

    def _perform(self, one: Claim, does: Does) -> Any:
        planned[one.job_id] = does
        return self._now(lambda: execute(one, rng=Middle(), signals=Signals()))

    @precondition(lambda self: self.given)
    @rule(batch=lists(claims, min_size=1, max_size=3), handed_over=booleans())
    def release(self, batch: list[Claim], handed_over: bool) -> None:
        self._same(
            lambda: sorted(releasing.release(batch, REASON)),
            lambda: sorted(work.release(self.state, batch)),
        )
        if handed_over:
            self._hand_over({(one.firm_id, one.lock_key) for one in batch if one.lock_key})

    def _hand_over(self, keys: set[LockKey]) -> None:
        self._same(lambda: admit(keys), lambda: self.state.admit(keys))

    @rule(worker=_worker)
    def heartbeat(self, worker: int) -> None:
        worker_id = self.worker_ids[worker]
        self._same(lambda: heartbeat(worker_id, 1), lambda: upkeep.heartbeat(self.state, worker_id))

    @rule(worker=_worker)
    def begin_anew(self, worker: int) -> None:
        """A worker starts under a new id; what it held stays with the old one."""
        self.worker_ids[worker], self.turns[worker] = self._begin(), Turns()

    @rule(handed_over=booleans())
    def rescue(self, handed_over: bool) -> None:
        report = self._now(lambda: rescuing.rescue(Middle()))
        assert report.freed_locks == upkeep.rescue(self.state)
        if handed_over:
            self._hand_over(set(report.freed_locks))

    @rule(target=looks, worker=_worker)
    def a_rescuer_looks_and_falls_asleep(self, worker: int) -> Any:
        """Between its look and its write, everything may happen."""
        worker_id = self.worker_ids[worker]
        self._now(lambda: in_transaction(rescuing._mark_dead))
        dead = upkeep.mark_dead(self.state)
        predicted = upkeep.look(self.state, worker_id)
        if worker_id not in dead or not predicted:
            return multiple()
        running = dict(reading(rescuing._dead_workers))[worker_id]
        held = in_transaction(lambda: rescuing.held_by(worker_id))
        seen = [rescuing._decide(job, job.job_id in running, Middle()) for job in held]
        assert [one.job.job_id for one in seen] == sorted(one.job_id for one in predicted)
        return seen, predicted

    @rule(look=looks)
    def the_rescuer_wakes_and_writes(self, look: tuple[list[Any], list[upkeep.Decision]]) -> None:
        seen, predicted = look

        def write() -> set[LockKey]:
            taken = rescuing._take_back(seen)
            mine = [one for one in seen if one.job.job_id in taken]
            return set(rescuing._write_consequences(mine).freed_locks)

        self._same(lambda: in_transaction(write), lambda: upkeep.take_back(self.state, predicted))

    @rule()
    def rescue_orphans(self) -> None:
        report = self._now(lambda: rescuing.rescue_orphans(Middle()))
        assert report.freed_locks == upkeep.rescue_orphans(self.state)

    @rule()
    def expire(self) -> None:
        self._same(expire, lambda: upkeep.expire(self.state))

    @rule()
    def sweep(self) -> None:
        self._same(sweep, lambda: upkeep.sweep(self.state))
        assert free_orphan_slots() == 0

    @rule(firm=integers(0, 2))
    def prune(self, firm: int) -> None:
        self._now(lambda: prune(self.firms[firm]))
        upkeep.prune(self.state, self.firms[firm].pk)

    @rule(job_id=jobs)
    def cancel(self, job_id: UUID) -> None:
        self._same(lambda: canceling.cancel(job_id), lambda: operators.cancel(self.state, job_id))

    @rule(job_id=jobs)
    def retry(self, job_id: UUID) -> None:
        self._same(lambda: retrying.retry(job_id), lambda: operators.retry(self.state, job_id))

    def _letter(self, pick: int) -> tuple[operators.Place, UUID]:
        places = sorted(self.state.letters)
        place = places[pick % len(places)]
        return place, tables.letter_id(*place)

    @precondition(lambda self: self.state.letters)
    @rule(pick=_pick, priority=none() | integers(0, 3))
    def reprocess(self, pick: int, priority: int | None) -> None:
        place, letter = self._letter(pick)
        self._same(
            lambda: deciding.reprocess(letter, priority=priority) and None,
            lambda: operators.reprocess(self.state, place, priority),
        )

    @precondition(lambda self: self.state.letters)
    @rule(pick=_pick)
    def discard(self, pick: int) -> None:
        place, letter = self._letter(pick)
        self._same(
            lambda: deciding.discard(letter, REASON), lambda: operators.discard(self.state, place)
        )

    @precondition(lambda self: self.state.letters)
    @rule(pick=_pick)
    def escalate(self, pick: int) -> None:
        place, letter = self._letter(pick)
        self._same(
            lambda: deciding.escalate(letter, REASON) and None,
            lambda: operators.escalate(self.state, place),
        )

    @invariant()
    def the_tables_are_as_predicted(self) -> None:
        found = tables.read()
        check(found)
        self._check_against_before(found)
        differences = found.differences(tables.expected(self.state))
        assert not differences, "\n".join(["the database, the model:", *differences])

    def _check_against_before(self, found: tables.Tables) -> None:
        """What is completed stays so, and tokens only grow."""
        for job_id in self.over & found.jobs.keys():
            assert found.jobs[job_id].status == "completed"
        self.over |= {job_id for job_id, row in found.jobs.items() if row.status == "completed"}
        new = found.fences - self.fences
        assert all(token > self.highest_token for token in new)
        self._raise_highest(new)
        self.fences |= new
