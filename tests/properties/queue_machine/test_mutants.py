"""The machine notices each known fault of queues within a bounded number of examples."""

from __future__ import annotations

import pytest
from django.db import DatabaseError
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tenants.models import Firm
from tests.properties.queue_machine.machine import QueueMachine
from tests.properties.queue_machine.mutants import MUTANTS
from tests.support.databases import sqlite_only
from tests.support.mutation import Seen

# These tests prove that the machine sees faults in the logic, for which one database is enough.
pytestmark = [pytest.mark.django_db(transaction=True), sqlite_only]

# The examples are always the same; the first one that fails is not shortened.
EYES = settings(
    max_examples=300,
    stateful_step_count=50,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=False,
    report_multiple_bugs=False,
)


@pytest.mark.req("J-08", "J-09", "J-12", "J-14", "J-17", "J-20", "J-23", "D-02")
@pytest.mark.parametrize("name", MUTANTS)
def test_the_machine_catches(
    name: str, machine_firms: list[Firm], monkeypatch: pytest.MonkeyPatch
) -> None:
    met = Seen()
    MUTANTS[name](monkeypatch, met)
    with pytest.raises((AssertionError, DatabaseError)):
        run_state_machine_as_test(QueueMachine, settings=EYES)
    assert met, "the faulty statement never ran: was it reworded?"
