"""Faults that the machine has found, each as a short test."""

from __future__ import annotations

from uuid import UUID

import pytest

from jobs import queue
from jobs.engine.fair_share import FairShare
from jobs.engine.rescue import rescue_orphans
from jobs.states import Status
from tenants.models import Firm
from tests.properties.queue_machine import operators, upkeep
from tests.properties.queue_machine.kinds import KINDS, Does, Middle
from tests.properties.queue_machine.state import Job
from tests.properties.queue_machine.twin import Twin

pytestmark = pytest.mark.django_db(transaction=True)


def new_job(
    number: int,
    firm: Firm,
    kind: str = "model.work",
    key: str | None = None,
    *,
    priority: int = 2,
    lock_key: str | None = None,
) -> Job:
    return Job(
        job_id=UUID(int=number),
        firm_id=firm.pk,
        kind=KINDS[kind],
        priority=priority,
        scheduled=0,
        expires=None,
        lock_key=lock_key,
        key=key,
    )


@pytest.mark.req("J-20")
def test_free_slots_go_to_jobs_of_every_priority_at_once(machine_firms: list[Firm]) -> None:
    twin, firm = Twin(), machine_firms[0]
    for priority in (2, 3):
        twin.enqueue([new_job(priority, firm, "model.pair", priority=priority, lock_key="b")])
    twin.admit([(firm.pk, "b")])
    twin.assert_agreement()
    assert all(job.ready for job in twin.state.jobs.values())


@pytest.mark.req("J-20")
def test_nobody_overtakes_who_waits_for_a_slot_of_the_same_key(machine_firms: list[Firm]) -> None:
    twin, firm = Twin(), machine_firms[0]
    for number, kind in enumerate(["model.once", "model.once", "model.pair"], start=1):
        twin.enqueue([new_job(number, firm, kind, lock_key="b")])
    twin.admit([(firm.pk, "b")])
    twin.assert_agreement()
    assert [job.ready for _, job in sorted(twin.state.jobs.items())] == [True, False, False]


@pytest.mark.req("J-07")
@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_for_ever_that_a_live_job_holds_names_that_job(
    machine_firms: list[Firm], at_once: bool
) -> None:
    twin, firm = Twin(), machine_firms[0]
    jobs = [new_job(1, firm, key="x")]
    jobs += [new_job(number, firm, "model.once", key="x") for number in (2, 3)]
    for batch in [jobs] if at_once else [[job] for job in jobs]:
        twin.enqueue(batch)
    worker_id = twin.begin_worker()
    twin.settle([(one, Does.COMPLETES) for one in twin.claim(worker_id, 5, FairShare())])
    assert twin.enqueue([new_job(4, firm, "model.once", key="x")]) == []
    twin.assert_agreement()
    assert twin.state.once_keys == {(firm.pk, "x"): UUID(int=1)}


@pytest.mark.req("J-09", "J-13")
def test_an_old_claim_beside_the_one_in_force_is_released_once(machine_firms: list[Firm]) -> None:
    twin = Twin()
    twin.enqueue([new_job(1, machine_firms[0])])
    worker_id, fair_share = twin.begin_worker(), FairShare()
    old = twin.claim(worker_id, 1, fair_share)
    twin.release(old, handed_over=False)
    twin.release([*old, *twin.claim(worker_id, 1, fair_share)], handed_over=False)
    twin.assert_agreement()
    assert len(twin.state.history) == 2


@pytest.mark.req("J-09")
def test_an_old_claim_is_stale_beside_a_repeat_of_the_last(machine_firms: list[Firm]) -> None:
    twin = Twin()
    twin.enqueue([new_job(1, machine_firms[0])])
    worker_id, fair_share = twin.begin_worker(), FairShare()
    old = twin.claim(worker_id, 1, fair_share)
    twin.release(old, handed_over=False)
    last = twin.claim(worker_id, 1, fair_share)
    twin.settle([(last[0], Does.COMPLETES)])
    twin.settle([(old[0], Does.FAILS), (last[0], Does.COMPLETES)])
    twin.assert_agreement()
    assert [job.status for job in twin.state.jobs.values()] == ["completed"]


@pytest.mark.req("J-20")
@pytest.mark.parametrize("other", ["a", "c"])
def test_each_key_has_its_own_slots_when_several_are_admitted_together(
    machine_firms: list[Firm], other: str
) -> None:
    twin, firm = Twin(), machine_firms[0]
    twin.enqueue([new_job(1, firm, "model.pair", lock_key="b")])
    twin.admit([(firm.pk, "b")])
    twin.enqueue([new_job(2, firm, "model.pair", lock_key="b")])
    twin.enqueue([new_job(3, firm, "model.pair", lock_key=other)])
    twin.admit([(firm.pk, "b"), (firm.pk, other)])
    twin.assert_agreement()
    assert all(job.ready for job in twin.state.jobs.values())


@pytest.mark.req("J-14", "J-16")
def test_a_cancel_that_is_repeated_keeps_nobody_from_rescuing_the_job(
    machine_firms: list[Firm],
) -> None:
    twin = Twin()
    worker_id = twin.begin_worker()
    twin.state.now += 31
    twin.rescue()
    twin.enqueue([new_job(1, machine_firms[0])])
    twin.claim(worker_id, 1, FairShare())
    for seconds in (0, 31):
        twin.state.now += seconds
        twin.same(
            lambda: queue.cancel(UUID(int=1)).status == Status.CANCELED,
            lambda: operators.cancel(twin.state, UUID(int=1)),
        )
    twin.same(
        lambda: rescue_orphans(Middle()).released_capacity.keys,
        lambda: upkeep.rescue_orphans(twin.state),
    )
    twin.assert_agreement()
    assert [job.status for job in twin.state.jobs.values()] == ["canceled"]
