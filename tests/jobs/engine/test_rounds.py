"""Rounds: what a look found serves the next claims, and nobody is forgotten meanwhile."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engine import dialects, rounds
from jobs.engine.claim import claim
from jobs.engine.dialects.claiming import LAST_FIRM, Walk
from jobs.engine.fair_share import Turns
from jobs.engine.release import release
from jobs.engine.rounds import LEAST_BATCH
from jobs.models import JobQueue
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import change, new_worker
from tests.support.backlog import Server, fill, make_firms

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-08", "J-23")]

BATCH = 2 * LEAST_BATCH


@pytest.fixture
def looks(monkeypatch) -> list[list[Walk]]:
    """Note which ways each look for firms with work goes."""
    kind = type(dialects.current())
    seen: list[list[Walk]] = []
    look = kind.firms_with_work

    def noted(self, walks, claimable, most):
        seen.append(list(walks))
        return look(self, walks, claimable, most)

    monkeypatch.setattr(kind, "firms_with_work", noted)
    return seen


@pytest.fixture(autouse=True)
def cheap(monkeypatch) -> None:
    """Let no look count as costly, however busy the machine is."""
    monkeypatch.setattr(rounds, "COSTLY_LOOK_SECONDS", inf)


@pytest.fixture
def costly(cheap, monkeypatch) -> None:
    """Let every look count as costly."""
    monkeypatch.setattr(rounds, "COSTLY_LOOK_SECONDS", -1.0)


@pytest.fixture
def endless(monkeypatch) -> None:
    """Let a round last until a claim ends it."""
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 3_600.0)
    monkeypatch.setattr(rounds, "LONGEST_ROUND_SECONDS", 3_600.0)


@pytest.fixture
def glancing(monkeypatch) -> None:
    """Let a round last, and glance at what is new before each claim."""
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(rounds, "ROUND_PER_LOOK", 1e9)
    monkeypatch.setattr(rounds.Round, "joined_by", _at_once(rounds.Round.joined_by))


def _at_once(joined_by):
    def joined(self, met, begun, ended):
        return joined_by(self, met, ended, ended)

    return joined


@pytest.mark.usefixtures("endless")
def test_one_look_serves_the_claims_of_a_round(looks):
    firms = make_firms(3)
    fill(dict.fromkeys(firms, 3 * BATCH))
    server = Server()
    served = [firm_id for _ in range(6) for firm_id in server.serve(BATCH)]
    assert served == [firms[place % 3] for place in range(6 * BATCH)]
    assert len(looks) == 1


@pytest.mark.usefixtures("endless")
def test_who_claims_few_looks_each_time(looks):
    fill(dict.fromkeys(make_firms(3), BATCH))
    server = Server()
    server.serve(BATCH)
    for _ in range(3):
        server.serve(LEAST_BATCH - 1)
    assert len(looks) == 4


@pytest.mark.usefixtures("endless")
def test_more_firms_than_a_look_meets_make_no_round(looks):
    fill(dict.fromkeys(make_firms(BATCH + 1), 2))
    server = Server()
    server.serve(BATCH)
    server.serve(BATCH)
    assert len(looks) == 2


def test_a_round_is_over_in_time(looks, monkeypatch):
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(rounds, "ROUND_PER_LOOK", 0.0)
    fill(dict.fromkeys(make_firms(3), BATCH))
    server = Server()
    server.serve(BATCH)
    server.serve(BATCH)
    assert len(looks) == 2


def test_a_round_lasts_by_what_its_look_took():
    lasting = rounds.Round(2, [1], frozenset())
    assert lasting.timed(50.0, 50.0).ends_at == pytest.approx(50.1)
    assert lasting.timed(50.0, 53.0).ends_at == pytest.approx(83.0)
    assert lasting.timed(50.0, 53.0).glance_at == pytest.approx(53.1)
    assert lasting.timed(50.0, 80.0).ends_at == pytest.approx(140.0)
    assert lasting.joined_by(None, 50.0, 53.0).glance_at == pytest.approx(83.0)


@pytest.mark.usefixtures("endless")
def test_what_is_given_back_in_a_round_is_found_before_an_empty_answer():
    (firm_id,) = make_firms(1)
    fill({firm_id: 3 * BATCH})
    worker_id, turns = new_worker(), Turns()
    first = claim(worker_id, BATCH, turns)
    claim(worker_id, BATCH, turns)
    release(first, "test")
    third, fourth = claim(worker_id, BATCH, turns), claim(worker_id, BATCH, turns)
    assert not {one.job_id for one in third} & {one.job_id for one in first}
    assert [one.job_id for one in fourth] == [one.job_id for one in first]
    assert claim(worker_id, BATCH, turns) == []


@pytest.mark.usefixtures("endless")
def test_a_claim_far_from_full_ends_the_round(looks):
    rich, *poor, late = make_firms(4)
    fill({rich: 4 * BATCH, **dict.fromkeys(poor, BATCH // 3)})
    server = Server()
    assert len(server.serve(BATCH)) == BATCH
    fill({late: 1})
    assert set(server.serve(BATCH)) == {rich}
    assert late in server.serve(BATCH)
    assert len(looks) == 2


@pytest.mark.usefixtures("endless")
def test_a_firm_whose_line_came_to_an_end_leaves_the_round(looks):
    one, other = make_firms(2)
    fill({one: 5, other: 4 * BATCH})
    server = Server()
    assert server.serve(BATCH).count(one) == 5
    assert server.serve(BATCH) == [other] * BATCH
    assert server.serve(BATCH) == [other] * BATCH
    assert len(looks) == 1


@pytest.mark.usefixtures("endless", "costly")
def test_after_a_costly_look_short_and_empty_claims_do_not_end_the_round(looks):
    (firm_id,) = make_firms(1)
    fill({firm_id: 3})
    server = Server()
    for age_seconds in (60, 50):
        assert server.serve(BATCH) == [firm_id] * 3
        assert server.serve(BATCH) == []
        fill({firm_id: 3}, age_seconds=age_seconds)
    assert server.serve(BATCH) == [firm_id] * 3
    assert len(looks) == 1


@pytest.mark.usefixtures("glancing", "costly")
def test_a_dry_firm_is_asked_again_at_a_glance_behind_its_last_job(looks):
    poor, rich = make_firms(2)
    fill({poor: 3, rich: 4 * BATCH})
    server = Server()
    assert server.serve(BATCH).count(poor) == 3
    fill({poor: 1}, age_seconds=60)
    assert server.serve(BATCH).count(poor) == 1
    assert list(looks[-1][-1].besides) == [poor, rich]


@pytest.mark.usefixtures("glancing", "costly")
def test_when_a_costly_round_has_no_more_work_a_glance_finds_lower_priorities():
    one, other = make_firms(2)
    fill({one: 3})
    server = Server()
    assert server.serve(BATCH) == [one] * 3
    fill({other: 2}, priority=3)
    assert server.serve(BATCH) == [other] * 2
    fill({one: 1}, priority=1)
    assert server.serve(BATCH) == [one]


@pytest.mark.usefixtures("endless", "costly")
def test_who_claims_few_finds_what_a_costly_round_passed():
    (firm_id,) = make_firms(1)
    fill({firm_id: 1}, age_seconds=60)
    server = Server()
    server.serve(BATCH)
    fill({firm_id: 1})
    assert server.serve(BATCH) == []
    assert server.serve(LEAST_BATCH - 1) == [firm_id]


@pytest.mark.usefixtures("glancing")
def test_a_firm_that_had_no_work_is_found_at_a_glance(looks):
    firms = make_firms(5)
    fill({firms[1]: 4 * BATCH, firms[3]: 4 * BATCH})
    server = Server()
    server.serve(BATCH)
    begun = server.turns.round
    fill({firms[0]: 4, firms[2]: 4, firms[4]: 4})
    assert set(server.serve(BATCH)) == set(firms)
    assert list(looks[-1][-1].besides) == [firms[1], firms[3]]
    assert begun is not None
    assert server.turns.round is not None
    assert server.turns.round.ends_at == begun.ends_at


@pytest.mark.usefixtures("glancing")
def test_a_higher_priority_is_found_at_a_glance_and_the_round_goes_on_behind_it():
    one, other = make_firms(2)
    fill({one: 4 * BATCH})
    server = Server()
    server.serve(BATCH)
    begun = server.turns.round
    fill({other: 2}, priority=0)
    assert server.serve(BATCH) == [other] * 2
    assert server.turns.round is begun
    assert server.serve(BATCH) == [one] * BATCH


@pytest.mark.usefixtures("glancing")
def test_a_line_that_begins_anew_is_served_from_its_start():
    one, other = make_firms(2)
    fill({one: 5, other: 4 * BATCH})
    server = Server()
    assert server.serve(BATCH).count(one) == 5
    fill({one: 3}, age_seconds=86_400)
    assert server.serve(BATCH).count(one) == 3


@pytest.mark.usefixtures("endless")
def test_a_cap_that_comes_within_a_round_holds_at_once():
    one, other = make_firms(2)
    fill({one: 4 * BATCH, other: 4 * BATCH})
    server = Server()
    server.serve(BATCH)
    Firm.objects.filter(pk=one).update(running_cap=1)
    assert set(server.serve(BATCH)) == {other}
    Firm.objects.filter(pk=other).update(active=False)
    assert server.serve(BATCH) == []


@pytest.mark.usefixtures("glancing")
def test_a_cap_that_is_lifted_within_a_round_is_over_at_the_next_glance():
    one, other = make_firms(2)
    fill({one: 4 * BATCH, other: 8 * BATCH})
    with all_firms("test"):
        admitted = JobQueue.objects.filter(firm_id=one).first()
    assert admitted is not None
    change(admitted.job_id, admitted=True)
    Firm.objects.filter(pk=one).update(running_cap=1)
    server = Server()
    assert server.serve(BATCH).count(one) == 1
    assert server.serve(BATCH) == [other] * BATCH
    Firm.objects.filter(pk=one).update(running_cap=None)
    assert server.serve(BATCH).count(one) == BATCH // 2


@given(
    after=st.integers(0, 30),
    until=st.integers(0, 30),
    besides=st.sets(st.integers(1, 30)),
)
def test_the_legs_of_a_walk_come_by_every_firm_once_but_those_besides(after, until, besides):
    legs = Walk(2, after, until, sorted(besides)).legs
    met = [firm_id for leg in legs for firm_id in range(leg.after + 1, min(leg.until, 40) + 1)]
    ahead = [one for one in range(1, 41) if one > after and (one <= until or until <= after)]
    behind = list(range(1, until + 1)) if until <= after else []
    assert met == [one for one in ahead + behind if one not in besides]
    assert max((leg.until for leg in legs), default=0) <= LAST_FIRM
