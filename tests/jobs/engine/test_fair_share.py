"""Firms share the workers by weight, and no firm's backlog delays the others."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs.engine.claim import WEIGHTS_SECONDS
from jobs.engine.fair_share import Cursor, VisitingOrder
from jobs.engine.transactions import in_transaction, run
from tenants.models import Firm
from tests.jobs.engine import fair_share_reference as reference
from tests.support.backlog import Server, fill, jain, make_firms

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-23")]

# How many light firms there are, and how many jobs the heavy one has before them: in the suite,
# and in `make chaos`.
SUITE = (300, 5_000)
CHAOS = (10_000, 300_000)


def first_services(light: set[int], batch: int, workers: int = 1) -> dict[int, int]:
    """Serve until every light firm was served once; return after how many services each was."""
    servers = [Server() for _ in range(workers)]
    first: dict[int, int] = {}
    served = 0
    while len(first) < len(light):
        for server in servers:
            for firm_id in server.serve(batch):
                served += 1
                if firm_id in light:
                    first.setdefault(firm_id, served)
    return first


def test_a_cursor_keeps_what_firms_with_work_have_saved_up() -> None:
    saved = dict.fromkeys((5, 20, 40), 0.5)
    order = VisitingOrder(Cursor(last=0, deficits=saved), {10: 1.5, 20: 0.75}, 2)
    order.visit([10, 20])
    assert order.allotted == [10, 20]
    # The scan passed firm 5, which had no work, and has not come to firm 40.
    rest = {10: 0.5, 20: 0.25, 40: 0.5}
    assert order.cursor_after({10: 1, 20: 1}) == Cursor(20, None, rest)
    # Fewer jobs than were allotted: the firm has no more.
    assert order.cursor_after({10: 1}) == Cursor(20, None, {10: 0.5, 40: 0.5})


def test_a_visit_that_a_full_batch_cut_is_resumed_while_the_firm_has_work() -> None:
    order = VisitingOrder(Cursor(last=3), {10: 3.0}, 1)
    order.visit([10, 20])
    assert order.allotted == [10]
    assert order.cursor_after({10: 1}) == Cursor(3, 10, {10: 2.0})
    assert order.cursor_after({}) == Cursor(10, None, {})


@pytest.mark.parametrize(("batch", "workers"), [(500, 1), (7, 1), (50, 4)])
def test_a_light_firm_waits_for_one_visit_of_each_other_and_one_batch(chaos, batch, workers):
    lights, jobs = CHAOS if chaos else SUITE
    heavy, *light = make_firms(lights + 1)
    fill({heavy: jobs}, age_seconds=7_200)
    fill(dict.fromkeys(light, 1))
    waits = first_services(set(light), batch, workers)
    # Workers do not know of each other, so a light firm may wait for one batch of each.
    assert max(waits.values()) <= len(light) + 1 + batch * workers


@pytest.mark.parametrize("place", [0, -1])
def test_a_firm_that_comes_late_is_next_but_one_visit_of_each(place):
    firms = make_firms(20)
    late = firms[place]
    fill({firm_id: 100 for firm_id in firms if firm_id != late})
    server = Server()
    before = server.serve(130)
    fill({late: 1})
    waited = list(islice(server.services(5), len(firms) + 5))
    assert late not in before
    assert late in waited


@pytest.mark.parametrize("batch", [3, 500])
@pytest.mark.parametrize(
    "weights", [(1, 2, 3, 4), (0.25, 0.5, 1, 1), (10, 1, 0.1, 1), (0.2, 0.2, 0.4), (1.5, 2.5, 0.7)]
)
def test_firms_are_served_by_weight(weights, batch):
    firms = make_firms(len(weights), weights)
    services = 300
    fill(dict.fromkeys(firms, services))
    served = Counter(islice(Server().services(batch), services))
    for firm_id, weight in zip(firms, weights, strict=True):
        fair = services * weight / sum(weights)
        # A visit serves whole jobs: at the end a firm may be one visit ahead of its share.
        assert abs(served[firm_id] - fair) <= max(0.1 * fair, weight, 1)


def test_workers_that_know_nothing_of_each_other_share_by_weight_too():
    weights = (1, 2, 3, 0.5)
    firms = make_firms(len(weights), weights)
    fill(dict.fromkeys(firms, 1_000))
    served: Counter[int] = Counter()
    servers = [Server() for _ in range(4)]
    for lap in range(12):
        for number, server in enumerate(servers):
            served.update(server.serve(5 + 7 * ((lap + number) % 4)))
    for firm_id, weight in zip(firms, weights, strict=True):
        assert served[firm_id] == pytest.approx(served.total() * weight / sum(weights), rel=0.1)


@pytest.mark.parametrize("batch", [3, 64])
def test_equal_firms_get_equal_shares_whatever_they_have_waiting(batch):
    firms = make_firms(20)
    fill({firm_id: 30 * (1 + place % 10) for place, firm_id in enumerate(firms)})
    served = Counter(islice(Server().services(batch), 20 * 30))
    assert jain([served[firm_id] for firm_id in firms]) >= 0.95


def test_priority_comes_before_any_weight():
    urgent, favored = make_firms(2, (0.01, 100))
    fill({urgent: 5}, priority=1, age_seconds=1)
    fill({favored: 5}, priority=2)
    assert list(Server().services(4)) == [urgent] * 5 + [favored] * 5


def test_each_priority_has_its_own_credit():
    one, other = make_firms(2, (2, 1))
    fill({one: 3, other: 3}, priority=1)
    server = Server()
    assert server.serve(1) == [one]
    fill({one: 4, other: 2}, priority=0)
    assert server.serve(6) == [one, one, other] * 2
    assert server.serve(3) == [one, other, one]


def test_a_changed_weight_is_seen_within_a_second(monkeypatch):
    one, other = make_firms(2)
    fill({one: 50, other: 50})
    server = Server()
    assert server.serve(4) == [one, other] * 2
    Firm.objects.filter(pk=other).update(weight=3)
    assert server.serve(2) == [one, other]
    assert server.fair_share.weights_read_at is not None
    server.fair_share.weights_read_at -= WEIGHTS_SECONDS
    assert server.serve(8) == [one, other, other, other] * 2


def test_a_weight_below_the_least_counts_as_the_least():
    one, other = make_firms(2, (1e-9, 1))
    fill({one: 3, other: 205})
    served = list(Server().services(500))
    assert served.index(one) == 99
    assert served.count(one) == 3


@pytest.mark.parametrize(
    ("weight", "counts_as"), [("NaN", 0.01), ("Infinity", 1000), (1e-320, 0.01)]
)
def test_any_weight_that_is_stored_leaves_the_others_their_turns(weight, counts_as):
    if weight == "NaN" and connection.vendor == "sqlite":
        pytest.skip("SQLite stores no NaN")
    one, other = make_firms(2)
    Firm.objects.filter(pk=one).update(weight=float(weight))
    fill({one: 2_100, other: 205})
    served = list(Server().services(500))
    assert served.index(other) == int(counts_as)
    assert len(served) == 2_305


def test_firms_of_small_weight_leave_no_batch_empty():
    firms = make_firms(200, [0.01] * 199 + [1])
    fill(dict.fromkeys(firms, 4))
    server = Server()
    assert server.serve(1) == [firms[-1]]
    assert server.serve(4) == [firms[-1]] * 3
    assert server.serve(150) == firms[:150]


@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    lines=st.lists(
        st.tuples(st.sampled_from([0.1, 0.25, 0.5, 1.0, 1.0, 1.5, 3.0, 12.0]), st.integers(1, 20)),
        min_size=1,
        max_size=6,
    ),
    batches=st.lists(st.integers(1, 25), min_size=1, max_size=4),
)
@example(lines=[(0.25, 9), (1.0, 3), (3.0, 20)], batches=[1])
def test_the_order_of_service_is_that_of_weighted_rounds(db, lines, batches):
    in_transaction(lambda: run("DELETE FROM jobs_jobqueue", []))
    Firm.objects.filter(slug__startswith="line-")._raw_delete("default")
    firms = make_firms(len(lines), [weight for weight, _ in lines])
    jobs = dict(zip(firms, (count for _, count in lines), strict=True))
    weights = dict(zip(firms, (weight for weight, _ in lines), strict=True))
    fill(jobs)
    server = Server()
    served: list[int] = []
    while len(served) < sum(jobs.values()):
        served += server.serve(batches[len(served) % len(batches)])
    assert served == list(reference.services(weights, jobs))
