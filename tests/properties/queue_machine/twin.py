"""The queue beside its model: every act is done to both, and they must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from jobs.engine import release as releasing
from jobs.engine import rescue as rescuing
from jobs.engine.admission import admit
from jobs.engine.claim import Claim, claim
from jobs.engine.clock import stopped_at
from jobs.engine.fair_share import FairShare
from jobs.engine.insert import insert
from jobs.engine.lease import WorkerInfo, heartbeat, mark_processing, note_running, register
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.new_job import NewJob
from jobs.engine.outcomes import Settlement
from jobs.engine.release import lock_in_flight
from jobs.engine.settle import settle
from jobs.engine.transactions import in_transaction, reading
from jobs.errors import JobError
from jobs.execution.context import Signals
from jobs.execution.executor import died, execute
from jobs.models.base import pack_ids
from tests.properties.queue_machine import tables, upkeep, work
from tests.properties.queue_machine.invariants import check
from tests.properties.queue_machine.kinds import Does, Middle, planned
from tests.properties.queue_machine.state import Job, LockKey, State

T = TypeVar("T")

# The decisions of a rescuer that has not written them yet: the engine's and the model's.
Look = tuple[list[Any], list[upkeep.Decision]]


class Twin:
    """An empty queue, and its model."""

    def __init__(self) -> None:
        self.state = State()
        self.given: list[Claim] = []
        self._workers = 0
        self._completed: set[UUID] = set()
        self._highest_token = 0
        self._fences: frozenset[int] = frozenset()
        tables.wipe()

    def now(self, act: Callable[[], T]) -> T:
        """Run `act` at the model's time."""
        with stopped_at(tables.moment(self.state.now)):
            return act()

    def same(self, engine: Callable[[], object], model: Callable[[], object]) -> None:
        """Act on both; they must return the same value, or refuse with the same error."""
        done, predicted = _outcome(lambda: self.now(engine)), _outcome(model)
        assert done == predicted, f"the engine said {done}, the model {predicted}"

    def assert_agreement(self) -> None:
        """Compare every table, and check what must hold in any case."""
        found = tables.read()
        check(found)
        for job_id in self._completed & found.jobs.keys():
            assert found.jobs[job_id].status == "completed", "a completed job changed its status"
        self._completed |= {key for key, row in found.jobs.items() if row.status == "completed"}
        self._see_tokens(found.fences - self._fences)
        self._fences |= found.fences
        differences = found.differences(tables.expected(self.state))
        assert not differences, "\n".join(["the database, the model:", *differences])

    def _see_tokens(self, tokens: Iterable[int]) -> None:
        """Check that new tokens, of claims and of locks, are higher than all before."""
        new = sorted(tokens)
        assert not new or new[0] > self._highest_token, f"token {new[0]} is not new"
        self._highest_token = max([self._highest_token, *new])

    def begin_worker(self) -> UUID:
        """Register another worker; return its id."""
        self._workers += 1
        worker_id = UUID(int=self._workers)
        info = WorkerInfo(
            worker_id=worker_id,
            host="test",
            pid=self._workers,
            version="0",
            categories=(),
            job_types=(),
            concurrency=1,
        )
        self.now(lambda: register(info))
        work.register(self.state, worker_id)
        return worker_id

    def heartbeat(self, worker_id: UUID) -> None:
        self.same(lambda: heartbeat(worker_id, 1), lambda: upkeep.heartbeat(self.state, worker_id))

    def enqueue(self, jobs: Sequence[Job]) -> list[UUID]:
        """Store the jobs; return the ids of those that were stored."""
        rows = [self._row(job) for job in jobs]
        self.same(lambda: insert(rows), lambda: work.enqueue(self.state, jobs))
        return [job.job_id for job in jobs if job.job_id in self.state.jobs]

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

    def admit(self, keys: Iterable[tuple[int, str | None]]) -> None:
        """Give free slots of these keys to the next jobs."""
        wanted: set[LockKey] = {(firm_id, key) for firm_id, key in keys if key is not None}
        self.same(
            lambda: admit(ReleasedCapacity(frozenset(wanted))), lambda: self.state.admit(wanted)
        )

    def claim(
        self, worker_id: UUID, limit: int, fair_share: FairShare, categories: tuple[str, ...] = ()
    ) -> list[Claim]:
        """Claim, and check that the engine takes the jobs that the model predicts."""
        served = _last_served(fair_share)
        chosen = work.claim(self.state, limit, served, categories)
        taken = self.now(lambda: claim(worker_id, limit, fair_share, categories=categories))
        assert [one.job_id for one in taken] == [job.job_id for job in chosen]
        assert _last_served(fair_share) == served
        self._see_tokens(one.lease_token for one in taken)
        for one, job in zip(taken, chosen, strict=True):
            work.take(self.state, job, worker_id, one.lease_token)
            told = (one.attempts, one.series, one.deaths, one.cancel_requested)
            assert told == (job.attempts, job.series, job.deaths, job.cancel_requested)
        self.given += taken
        return taken

    def in_force(self) -> list[Claim]:
        """Return the claims whose outcomes would still count."""
        return [one for one in self.given if self.state.held(one.job_id, one.lease_token)]

    def note_running(self, claims: Sequence[Claim]) -> None:
        """Note that the handlers of these claims, all of one worker, are about to start."""
        worker_id = claims[0].worker_id
        known = self.state.workers.get(worker_id)
        before = known.running if known else frozenset()
        running = before | {one.job_id for one in claims}
        self.same(
            lambda: note_running(worker_id, pack_ids(running)),
            lambda: work.note_running(self.state, worker_id, running),
        )

    def mark_processing(self, claims: Sequence[Claim]) -> None:
        self.now(lambda: mark_processing(claims))
        work.mark_processing(self.state, claims)

    def settle(self, batch: Sequence[tuple[Claim, Does]], *, handed_over: bool = True) -> None:
        """Run the handlers of these claims, and settle their outcomes."""
        endings = [(one, work.ending(self.state, one, does)) for one, does in batch]
        settlements = [Settlement(one, self._perform(one, does), 0.5) for one, does in batch]
        report = self.now(lambda: settle(settlements))
        told = work.settle(self.state, endings)
        assert report.statuses == told.statuses
        assert {one.lease_token for one in report.stale} == told.stale
        if handed_over:
            self.admit(report.released_capacity.keys)

    def _perform(self, one: Claim, does: Does) -> Any:
        if does is Does.DIES and work.starts(one):
            return died(one, "exit code 1", rng=Middle())
        planned[one.job_id] = does
        return self.now(lambda: execute(one, rng=Middle(), signals=Signals()))

    def release(self, claims: Sequence[Claim], *, handed_over: bool) -> None:
        self.same(
            lambda: sorted(releasing.release(claims, "because")),
            lambda: sorted(work.release(self.state, claims)),
        )
        if handed_over:
            self.admit((one.firm_id, one.lock_key) for one in claims)

    def rescue(self, *, handed_over: bool = True) -> None:
        report = self.now(lambda: rescuing.rescue(Middle()))
        assert report.released_capacity.keys == upkeep.rescue(self.state)
        if handed_over:
            self.admit(report.released_capacity.keys)

    def look(self, worker_id: UUID) -> Look:
        """Let a rescuer read the jobs of a silent worker, and decide about each."""
        self.now(lambda: in_transaction(lambda: rescuing._mark_dead(None)))
        if worker_id not in upkeep.mark_dead(self.state):
            return [], []
        running = dict(reading(rescuing._dead_workers))[worker_id]
        held = in_transaction(lambda: lock_in_flight(worker_id))
        seen = [
            rescuing._transition_of(
                job,
                rescuing._started(job, running),
                Middle(),
                otherwise=rescuing.NOT_STARTED,
            )
            for job in held
        ]
        predicted = upkeep.look(self.state, worker_id)
        assert [one.job.job_id for one in seen] == sorted(one.job_id for one in predicted)
        return seen, predicted

    def write_late(self, look: Look) -> None:
        """Let the rescuer write its decisions, whatever has happened since."""
        seen, predicted = look

        def write() -> set[LockKey]:
            return set(rescuing._end(seen).released_capacity.keys)

        self.same(lambda: in_transaction(write), lambda: upkeep.take_back(self.state, predicted))


def _last_served(fair_share: FairShare) -> dict[int, int]:
    return {priority: cursor.last for priority, cursor in fair_share.cursors.items()}


def _outcome(call: Callable[[], object]) -> object:
    """Return what the call returns, or the class of the error with which it refuses."""
    try:
        return call()
    except JobError as refusal:
        return type(refusal)
