"""The scheduler beside a caller's open transaction: it waits for nobody's."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.engine.pending_work import PendingWorkReader
from jobs.models import Schedule
from jobs.operations.schedules import create_schedule, run_now
from jobs.queue import enqueue
from jobs.schedules.defaults import store_default_schedules
from jobs.schedules.tick import slot_key, tick
from jobs.worker.maintenance import Maintenance
from jobs.worker.state import SharedState
from tenants.models import Firm
from tenants.scope import all_firms
from tests.faults.test_open_transactions import open_transaction
from tests.queue_kit import later, rows
from tests.support.databases import postgresql_only

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("waits_for_no_lock"),
    postgresql_only,
]


def runs() -> dict[str, bool]:
    """Return, by name, whether each schedule has run."""
    return {one.name: one.last_run_at is not None for one in rows(Schedule)}


@pytest.mark.req("S-01")
def test_a_key_that_a_caller_is_enqueueing_delays_only_its_own_schedule(firm: Firm) -> None:
    held, free = (create_schedule(name, "noop", firm=firm, interval_seconds=60) for name in "ab")
    key = slot_key(held, held.next_run_at)
    with later(90):
        with open_transaction(firm, lambda: enqueue("noop", firm=firm, idempotency_key=key)):
            assert [(one.schedule_id, one.jobs) for one in tick()] == [(str(free.pk), 1)]
            assert tick() == []
            assert runs() == {"a": False, "b": True}
        # The caller's job has the slot's key.
        assert [(one.schedule_id, one.jobs) for one in tick()] == [(str(held.pk), 0)]
    assert runs() == {"a": True, "b": True}
    following = {one.name: one.next_run_at for one in rows(Schedule)}
    assert following["a"] == held.next_run_at + timedelta(seconds=60)


def purge() -> Schedule:
    """Return one of the default schedules."""
    found: Schedule = next(one for one in rows(Schedule) if one.name == "Purge old jobs")
    return found


def maintain_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do one round of a new worker's maintenance."""
    state = SharedState()
    halts = iter([False, True])
    monkeypatch.setattr(state.halt, "wait", lambda _: next(halts))
    Maintenance(state, PendingWorkReader(), schedules=True)._loop()


@pytest.mark.req("S-02")
def test_a_locked_schedule_is_changed_once_it_is_free(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_default_schedules()
    declared = purge().shipped
    assert declared is not None
    with all_firms("test"):
        before = {**declared, "priority": 3}
        Schedule.objects.filter(pk=purge().pk).update(shipped=before, priority=3)
    with open_transaction(Firm.objects.system(), lambda: run_now(purge().pk)):
        maintain_once(monkeypatch)
        assert purge().priority == 3
    maintain_once(monkeypatch)
    assert purge().priority == declared["priority"]


@pytest.mark.req("S-02")
def test_a_locked_schedule_that_stays_as_it_is_keeps_no_worker(firm: Firm) -> None:
    store_default_schedules()
    before = purge().shipped
    with open_transaction(Firm.objects.system(), lambda: run_now(purge().pk)):
        # It would raise LockTimeout.
        store_default_schedules()
    assert purge().shipped == before
