"""The state machine: what may happen to the queue, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar
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

from jobs import queue
from jobs.engine.admission import sweep
from jobs.engine.claim import Claim
from jobs.engine.fair_share import FairShare
from jobs.engine.locks import free_orphan_slots
from jobs.engine.prune import expire, prune
from jobs.engine.rescue import rescue_orphans
from jobs.states import RETRYABLE, Status
from tenants.models import Firm
from tests.properties.queue_machine import operators, tables, upkeep
from tests.properties.queue_machine.kinds import KINDS, Does, Middle
from tests.properties.queue_machine.state import Job
from tests.properties.queue_machine.twin import Look, Twin
from tests.queue_kit import escalate_without_notice

WORKERS = 3
REASON = "because"
# These numbers make it unlikely that two spans end at the same moment.
MOMENTS = (2, 31, 61, 709)
AGES = (3701, 8 * upkeep.DAY + 7, 91 * upkeep.DAY + 11)

_worker = integers(0, WORKERS - 1)
_does = sampled_from(Does)
_pick = integers(0, 99)
# What is usual is likely: most jobs are due, of normal priority, and without a key.
_specs = fixed_dictionaries(
    {
        "firm": integers(0, 2),
        "kind": sampled_from(sorted(KINDS)),
        "priority": sampled_from([2, 2, 2, 0, 1, 3]),
        "delay": sampled_from([0, 0, 0, 0, 47, 719]),
        "expires": sampled_from([None, None, None, None, 53, 907]),
        "lock_key": sampled_from([None, None, "a", "b"]),
        "key": sampled_from([None, None, "x", "y"]),
    }
)


class QueueMachine(RuleBasedStateMachine):
    """Acts on a queue and on its model.

    Claims stay in their bundle, so they may be settled and released late, twice, or never.
    """

    # The jobs belong to these firms, which are set before the machine runs.
    firms: ClassVar[Sequence[Firm]] = ()

    claims: Bundle[Claim] = Bundle("claims")
    jobs: Bundle[UUID] = Bundle("jobs")
    looks: Bundle[Look] = Bundle("looks")

    def __init__(self) -> None:
        super().__init__()
        self.twin = Twin()
        self.state = self.twin.state
        self.enqueued = 0
        self.workers = [self.twin.begin_worker() for _ in range(WORKERS)]
        self.fair_share = [FairShare() for _ in range(WORKERS)]

    @invariant()
    def queue_and_model_agree(self) -> None:
        self.twin.assert_agreement()

    @initialize(target=jobs, specs=lists(_specs, min_size=3, max_size=8))
    def begin(self, specs: list[dict[str, Any]]) -> Any:
        return self.enqueue_and_admit(specs)

    @rule(target=jobs, specs=lists(_specs, min_size=1, max_size=4))
    def enqueue_and_admit(self, specs: list[dict[str, Any]]) -> Any:
        new = [self._job(**spec) for spec in specs]
        stored = self.twin.enqueue(new)
        self.twin.admit((job.firm_id, job.lock_key) for job in new)
        return multiple(*stored)

    @rule(target=jobs, specs=lists(_specs, min_size=1, max_size=4))
    def enqueue_and_stop_before_admission(self, specs: list[dict[str, Any]]) -> Any:
        return multiple(*self.twin.enqueue([self._job(**spec) for spec in specs]))

    def _job(self, *, firm: int, kind: str, delay: int, expires: int | None, **rest: Any) -> Job:
        self.enqueued += 1
        return Job(
            # The ids have no order, so that only the time says which job came first.
            job_id=UUID(int=self.enqueued * 7919 % 10007),
            firm_id=self.firms[firm].pk,
            kind=KINDS[kind],
            scheduled=self.state.now + delay,
            expires=None if expires is None else self.state.now + expires,
            **rest,
        )

    @rule(seconds=sampled_from(MOMENTS))
    def time_goes_by(self, seconds: int) -> None:
        self.state.now += seconds

    @rule(seconds=sampled_from(AGES))
    def prune_much_later(self, seconds: int) -> None:
        self.state.now += seconds
        for firm in self.firms:
            self.twin.now(partial(prune, firm))
            upkeep.prune(self.state, firm.pk)

    @rule(target=claims, worker=_worker, limit=integers(1, 6))
    def claim(self, worker: int, limit: int) -> Any:
        return multiple(*self.twin.claim(self.workers[worker], limit, self.fair_share[worker]))

    @rule(target=claims, worker=_worker, category=sampled_from(["sync", "export"]))
    def claim_of_one_category(self, worker: int, category: str) -> Any:
        fair_share = self.fair_share[worker]
        return multiple(*self.twin.claim(self.workers[worker], 2, fair_share, (category,)))

    @rule(target=claims, worker=_worker, does=_does, wait=sampled_from([0, 61, 709]))
    def a_worker_does_a_round(self, worker: int, does: Does, wait: int) -> Any:
        self.state.now += wait
        taken = self.twin.claim(self.workers[worker], 6, self.fair_share[worker])
        if taken:
            self.twin.note_running(taken)
            self.twin.settle([(one, does) for one in taken])
        return multiple(*taken)

    @rule(target=claims, worker=_worker, started=integers(0, 6))
    def a_worker_dies(self, worker: int, started: int) -> Any:
        """Some handlers of the worker had started; the other workers live on."""
        worker_id = self.workers[worker]
        taken = self.twin.claim(worker_id, 6, self.fair_share[worker])
        if taken[:started]:
            self.twin.note_running(taken[:started])
        self.state.now += 20
        for other in self.workers:
            if other != worker_id:
                self.twin.heartbeat(other)
        self.state.now += 11
        self.twin.rescue()
        self._begin_anew(worker)
        return multiple(*taken)

    def _begin_anew(self, worker: int) -> None:
        """Begin a new worker in its place; the claims stay with the old one."""
        self.workers[worker], self.fair_share[worker] = self.twin.begin_worker(), FairShare()

    @rule(worker=_worker, anew=booleans())
    def be_alive(self, worker: int, anew: bool) -> None:
        if anew:
            self._begin_anew(worker)
        self.twin.heartbeat(self.workers[worker])

    @rule(one=claims, shown=booleans())
    def start(self, one: Claim, shown: bool) -> None:
        self.twin.note_running([one])
        if shown:
            self.twin.mark_processing([one])

    @precondition(lambda self: self.twin.in_force())
    @rule(pick=_pick, does=_does)
    def settle_what_counts(self, pick: int, does: Does) -> None:
        in_force = self.twin.in_force()
        self.twin.settle([(in_force[pick % len(in_force)], does)])

    @precondition(lambda self: self.twin.given)
    @rule(batch=lists(tuples(claims, _does), min_size=1, max_size=3), handed_over=booleans())
    def settle_whatever(self, batch: list[tuple[Claim, Does]], handed_over: bool) -> None:
        self.twin.settle(batch, handed_over=handed_over)

    @precondition(lambda self: self.twin.given)
    @rule(batch=lists(claims, min_size=1, max_size=3), handed_over=booleans())
    def release(self, batch: list[Claim], handed_over: bool) -> None:
        self.twin.release(batch, handed_over=handed_over)

    @rule(handed_over=booleans())
    def rescue(self, handed_over: bool) -> None:
        self.twin.rescue(handed_over=handed_over)

    @rule(target=claims, worker=_worker, does=_does)
    def a_worker_wakes_before_its_rescuer(self, worker: int, does: Does) -> Any:
        """The rescuer looks while the worker is silent, and writes after the worker has settled."""
        taken = self.twin.claim(self.workers[worker], 6, self.fair_share[worker])
        if taken:
            self.twin.note_running(taken)
            self.state.now += 31
            look = self.twin.look(self.workers[worker])
            self.twin.settle([(one, does) for one in taken])
            self.twin.write_late(look)
        return multiple(*taken)

    @rule(target=looks, worker=_worker)
    def a_rescuer_looks_and_falls_asleep(self, worker: int) -> Any:
        """Anything may happen before the rescuer writes."""
        look = self.twin.look(self.workers[worker])
        return look if look[0] else multiple()

    @rule(look=looks)
    def the_rescuer_wakes_and_writes(self, look: Look) -> None:
        self.twin.write_late(look)

    @rule()
    def maintain(self) -> None:
        report = self.twin.now(lambda: rescue_orphans(Middle()))
        assert report.released_capacity.keys == upkeep.rescue_orphans(self.state)
        self.twin.same(expire, lambda: upkeep.expire(self.state))
        self.twin.same(sweep, lambda: upkeep.sweep(self.state))
        assert free_orphan_slots() == 0

    @rule(job_id=jobs)
    def cancel(self, job_id: UUID) -> None:
        self.twin.same(
            lambda: queue.cancel(job_id).status == Status.CANCELED,
            lambda: operators.cancel(self.state, job_id),
        )

    @rule(job_id=jobs)
    def retry(self, job_id: UUID) -> None:
        self.twin.same(lambda: queue.retry(job_id).pk, lambda: operators.retry(self.state, job_id))

    @precondition(lambda self: self._retryable())
    @rule(pick=_pick)
    def retry_what_is_over(self, pick: int) -> None:
        over = self._retryable()
        self.retry(over[pick % len(over)])

    def _retryable(self) -> list[UUID]:
        return [job.job_id for job in self.state.jobs.values() if job.status in RETRYABLE]

    @precondition(lambda self: self.state.letters)
    @rule(pick=_pick, priority=none() | integers(0, 3))
    def reprocess(self, pick: int, priority: int | None) -> None:
        place, letter = self._letter(pick)
        self.twin.same(
            lambda: queue.reprocess(letter, priority=priority).pk,
            lambda: operators.reprocess(self.state, place, priority),
        )

    @precondition(lambda self: self.state.letters)
    @rule(pick=_pick)
    def discard(self, pick: int) -> None:
        place, letter = self._letter(pick)
        self.twin.same(
            lambda: queue.discard(letter, REASON),
            lambda: operators.discard(self.state, place),
        )

    @precondition(lambda self: self.state.letters)
    @rule(pick=_pick)
    def escalate(self, pick: int) -> None:
        place, letter = self._letter(pick)
        self.twin.same(
            lambda: escalate_without_notice(letter, REASON),
            lambda: operators.escalate(self.state, place),
        )

    def _letter(self, pick: int) -> tuple[operators.Place, UUID]:
        places = sorted(self.state.letters)
        place = places[pick % len(places)]
        return place, tables.letter_id(*place)
