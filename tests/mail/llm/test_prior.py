"""The trained prior fits its features, and its labels reveal nothing of the mail."""

from __future__ import annotations

import pytest

from mail.llm.base import Category
from mail.llm.features import REASONS
from mail.llm.prior import WEIGHTS
from tests.benchmarks import offline
from tests.benchmarks.offline_mail import LABELS, labels
from tests.benchmarks.offline_training import NAMES, RAISING, Example, calibrate, fit

pytestmark = pytest.mark.req("M-12")


def example(*held, wanted=False):
    return Example({name: float(name in held) for name in NAMES}, wanted)


def test_the_prior_weighs_each_feature_the_way_it_may():
    assert WEIGHTS.keys() == set(NAMES) == REASONS.keys()
    assert RAISING.issubset(NAMES)
    assert {name for name, weight in WEIGHTS.items() if weight > 0} <= RAISING
    assert {name for name, weight in WEIGHTS.items() if weight < 0}.isdisjoint(RAISING)


def test_fitting_finds_what_tells_and_never_the_wrong_way_round():
    lessons = [example("asks_last", "links", wanted=True)] * 5 + [example()] * 5
    lessons += [example("asks_last", wanted=True)] * 5 + [example("copied")] * 5
    prior = fit(lessons, 1.0)
    assert prior.weights["asks_last"] > 1
    # In these lessons mail with links is answered, but links may not count as a reason to answer.
    assert prior.weights["links"] == 0
    assert prior.odds(lessons[0].facts) > 0 > prior.odds(lessons[-1].facts)


def test_calibration_takes_the_odds_to_how_often_it_is_so():
    slope, shift = calibrate([3.0] * 10 + [-3.0] * 10, [True] * 7 + [False] * 13)
    assert round(1 / (1 + 2.718281828 ** -(3 * slope + shift)), 1) == 0.7


def test_the_labels_are_enough_and_hold_no_address():
    found = labels()
    assert len(found) >= 300
    assert set(found.values()) <= set(Category)
    assert "@" not in LABELS.read_text(encoding="utf-8")


def test_without_the_mail_the_measurement_says_so(tmp_path, capsys):
    assert offline.main(["--data", str(tmp_path)]) == 0
    assert "skipped" in capsys.readouterr().out
