"""The queue, step by step, against its reference model."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tenants.models import Firm
from tests.properties.queue_machine.machine import QueueMachine

pytestmark = pytest.mark.django_db(transaction=True)

# Of the profile's examples; `--hypothesis-profile=soak` has many more.
EXAMPLES = settings.default.max_examples
STEPS = settings.default.stateful_step_count


@pytest.mark.req("J-08", "J-09", "J-12", "J-14", "J-16", "J-17", "J-20", "J-22", "D-02")
def test_the_queue_does_what_the_model_predicts(machine_firms: list[Firm]) -> None:
    run_state_machine_as_test(
        lambda: QueueMachine(machine_firms),
        settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS),
    )
