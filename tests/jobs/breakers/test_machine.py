"""Whatever happens in whatever order, an open breaker lets only its probe start."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from jobs.engine.claim import Claim
from jobs.engine.clock import database_now, stopped_at
from jobs.engine.outcomes import DeadLettered
from jobs.engine.release import release
from jobs.engine.transactions import in_transaction, run
from jobs.models import CircuitBreaker, JobQueue
from jobs.operations.breakers import close_breaker
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.states import DeadReason
from tenants.models import Firm
from tests.jobs.breakers.kit import DOWN, FAILS, WORKS, chores
from tests.queue_kit import finish, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-07")]

DIES = DeadLettered(DeadReason.FATAL, DOWN)
TYPES = ("frail", "frail.too")


class BreakerMachine(RuleBasedStateMachine):
    """Two types of one firm, and any number of workers."""

    firm: Firm

    def __init__(self) -> None:
        super().__init__()
        for table in ("jobs_jobqueue", "jobs_circuitbreaker", "jobs_deadletterqueue"):
            in_transaction(lambda table=table: run(f"DELETE FROM {table}", []))  # type: ignore[misc]
        self.moment: datetime = database_now()
        self.held: list[Claim] = []

    def act(self, what: Any) -> Any:
        with stopped_at(self.moment):
            return what()

    def breakers(self) -> dict[str, CircuitBreaker]:
        return {one.job_type: one for one in rows(CircuitBreaker)}

    @rule(job_type=st.sampled_from(TYPES), count=st.integers(1, 5))
    def enqueue(self, job_type: str, count: int) -> None:
        self.act(lambda: enqueue_many([EnqueueSpec(job_type)] * count, firm=self.firm))

    @rule(limit=st.integers(1, 6))
    def claim(self, limit: int) -> None:
        before = self.breakers()
        claims = self.act(lambda: take(limit))
        for one in claims:
            known = before.get(one.job_type)
            assert known is None or known.state == "closed" or known.probe_job_id == one.job_id
        self.held += claims

    @rule(outcome=st.sampled_from([WORKS, FAILS, FAILS, DIES]), number=st.integers(0, 9))
    def settle(self, outcome: Any, number: int) -> None:
        if self.held:
            claim = self.held.pop(number % len(self.held))
            # The executor retries no last attempt: it would leave a pending job that is never
            # claimed.
            is_last = outcome is FAILS and claim.attempts >= claim.max_attempts
            self.act(lambda: finish(claim, DIES if is_last else outcome))

    @rule(limit=st.integers(4, 8))
    def the_line_is_down(self, limit: int) -> None:
        self.enqueue("frail", limit)
        self.claim(limit)
        while self.held:
            self.settle(FAILS, 0)

    @rule()
    def give_back(self) -> None:
        claims, self.held = self.held, []
        self.act(lambda: release(claims, "worker stopped"))

    @rule(seconds=st.sampled_from([1, 10, 31, 61, 130, 901]))
    def wait(self, seconds: int) -> None:
        self.moment += timedelta(seconds=seconds)

    @rule()
    def maintain(self) -> None:
        self.act(chores)

    @rule()
    def override(self) -> None:
        for one in self.breakers().values():
            if one.state != "closed":
                self.act(lambda one=one: close_breaker(one, "by hand"))
                return

    @invariant()
    def the_row_is_whole(self) -> None:
        for one in self.breakers().values():
            assert (one.state == "half_open") == (one.probe_job_id is not None)
            assert (one.state == "closed") == (one.trips == 0)
            assert sum(one.failures.values()) <= one.attempts

    def teardown(self) -> None:
        """Check that all jobs end once their handlers work again, whatever happened before."""
        for claim in self.held:
            self.act(lambda claim=claim: finish(claim, WORKS))
        for _ in range(8):
            self.moment += timedelta(seconds=901)
            self.act(chores)
            for claim in self.act(lambda: take(500)):
                self.act(lambda claim=claim: finish(claim, WORKS))
        left = [job for job in rows(JobQueue) if job.status not in ("completed", "dlq")]
        assert left == []


def test_an_open_breaker_lets_its_probe_out_and_nothing_else(
    firm: Firm, job_types: dict[str, Any], chaos: bool
) -> None:
    BreakerMachine.firm = firm
    run_state_machine_as_test(
        BreakerMachine,
        settings=settings(
            max_examples=300 if chaos else 10,
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_jobs_that_fail_on_every_attempt_leave_none_behind(
    firm: Firm, job_types: dict[str, Any]
) -> None:
    BreakerMachine.firm = firm
    machine = BreakerMachine()
    for limit in (7, 7, 6, 6, 4, 6, 7, 7, 8, 4):
        machine.the_line_is_down(limit)
        machine.override()
    machine.teardown()
    assert {job.status for job in rows(JobQueue)} == {"completed", "dlq"}
