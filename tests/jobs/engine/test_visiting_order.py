"""How the jobs of a batch are allotted to firms, without a database."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engine.fair_share import Cursor, VisitingOrder
from tests.jobs.engine import fair_share_reference as reference

pytestmark = pytest.mark.req("J-23")

WEIGHTS = st.sampled_from([0.01, 0.1, 0.25, 0.3, 0.5, 1, 1, 1, 1.5, 2, 3, 7.25, 40])


class Workload:
    """Firms with jobs, and a claim that sees them as the database returns them."""

    def __init__(self, weights: dict[int, float], jobs: dict[int, int]) -> None:
        self.weights = weights
        self.jobs = dict(jobs)
        self.cursor = Cursor()

    def batch(self, limit: int, step: int) -> list[int]:
        """Allot one batch, scanning `step` firms at a time."""
        after = self.cursor.after
        firms = sorted(
            (firm_id for firm_id, left in self.jobs.items() if left),
            key=lambda firm_id: (firm_id <= after, firm_id),
        )
        order = VisitingOrder(self.cursor, self.weights, limit)
        for first in range(0, len(firms), step):
            order.visit(firms[first : first + step])
        order.repeat_rounds()
        taken: Counter[int] = Counter()
        served = []
        for firm_id in order.allotted:
            if self.jobs[firm_id]:
                self.jobs[firm_id] -= 1
                taken[firm_id] += 1
                served.append(firm_id)
        self.cursor = order.cursor_after(taken)
        return served


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(1, 8))
    ids = draw(st.lists(st.integers(1, 60), min_size=count, max_size=count, unique=True))
    return Workload(
        {firm_id: draw(WEIGHTS) for firm_id in ids},
        {firm_id: draw(st.integers(1, 40)) for firm_id in ids},
    )


@given(workloads(), st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 9))
def test_whoever_claims_how_much_at_once_the_order_of_service_is_the_same(workload, limits, step):
    expected = list(reference.services(workload.weights, workload.jobs))
    served: list[int] = []
    for limit in cycle(limits):
        if not any(workload.jobs.values()):
            break
        served += workload.batch(limit, step)
    assert served == expected


@given(workloads(), st.integers(1, 30), st.integers(1, 400))
def test_while_all_have_work_each_is_served_by_its_weight(workload, limit, services):
    workload.jobs = dict.fromkeys(workload.jobs, 100_000)
    served: Counter[int] = Counter()
    while served.total() < services:
        served.update(workload.batch(limit, 3))
    for one, other in combinations(workload.weights, 2):
        rounds = served[one] / workload.weights[one]
        rounds_of_other = served[other] / workload.weights[other]
        # A firm may be one round ahead, and may have saved a part of its next job.
        room = 1 + 1 / workload.weights[one] + 1 / workload.weights[other]
        assert abs(rounds - rounds_of_other) <= room + 1e-6


def test_rounds_follow_each_other_within_a_batch():
    order = VisitingOrder(Cursor(), {1: 3, 2: 0.5}, 9)
    order.visit([1, 2, 3])
    order.repeat_rounds()
    assert order.allotted == [1, 1, 1, 3, 1, 1, 1, 2, 3]


def test_a_visit_cut_by_the_end_of_the_batch_goes_on_in_the_next():
    workload = Workload({1: 5, 2: 1}, {1: 100, 2: 100})
    batches = [workload.batch(limit, 9) for limit in (2, 2, 3, 5)]
    assert batches == [[1, 1], [1, 1], [1, 2, 1], [1, 1, 1, 1, 2]]


def test_a_cut_visit_of_a_firm_without_work_left_is_over():
    workload = Workload({1: 5, 2: 1, 3: 1}, {1: 2, 2: 9, 3: 9})
    assert workload.batch(2, 9) == [1, 1]
    assert workload.batch(3, 9) == [2, 3, 2]
    assert not workload.cursor.deficits


def test_a_lower_weight_counts_from_the_next_visit_on():
    workload = Workload({1: 50, 2: 1}, {1: 100, 2: 100})
    workload.batch(10, 9)
    workload.weights = {1: 1, 2: 1}
    assert workload.batch(44, 9) == [1] * 40 + [2, 1, 2, 1]


def test_nothing_is_saved_while_there_is_no_work():
    workload = Workload({1: 0.5, 2: 1}, {1: 5, 2: 1_000})
    assert list(islice(workload.batch(3, 9), 3)) == [2, 1, 2]
    workload.jobs[1] = 0
    workload.batch(100, 9)
    workload.jobs[1] = 5
    assert workload.batch(6, 9).count(1) == 2


def test_the_deficit_of_firms_without_work_is_forgotten():
    everybody = range(1, 5_001)
    workload = Workload(dict.fromkeys(everybody, 0.3), dict.fromkeys(everybody, 2))
    while any(workload.jobs.values()):
        workload.batch(500, 500)
        assert len(workload.cursor.deficits) <= len(everybody)
    workload.jobs = {1: 10}
    workload.batch(5, 5)
    assert set(workload.cursor.deficits) <= {1}
