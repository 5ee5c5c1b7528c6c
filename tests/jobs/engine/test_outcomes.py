"""The outcomes of an attempt."""

from __future__ import annotations

from typing import get_args

import pytest

from jobs.engine.outcomes import Outcome


@pytest.mark.req("J-11")
def test_outcomes_are_a_closed_set_of_frozen_values():
    kinds = get_args(Outcome)
    assert {kind.__name__ for kind in kinds} == {
        "Completed", "Retry", "Snoozed", "Canceled", "DeadLettered", "Released",
    }  # fmt: skip
    assert all(kind.__dataclass_params__.frozen for kind in kinds)
