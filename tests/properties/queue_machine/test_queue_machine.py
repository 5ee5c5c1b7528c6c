"""The queue does, step by step, what its reference model predicts."""

from __future__ import annotations

import pytest
from django.db import connection
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tenants.models import Firm
from tests.properties.queue_machine.machine import QueueMachine

pytestmark = pytest.mark.django_db(transaction=True)

# The profile sets the number of examples; on a server each takes several times as long.
SHARE = 0.4 if connection.vendor == "postgresql" else 1.0
EXAMPLES = int(settings().max_examples * SHARE)
STEPS = settings().stateful_step_count


@pytest.mark.req("J-08", "J-09", "J-12", "J-14", "J-16", "J-17", "J-20", "J-22", "D-02")
def test_the_queue_does_what_the_model_predicts(machine_firms: list[Firm]) -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS),
    )
