"""The machine notices each known fault of queues within its budget."""

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

# What is proven is the machine's eye for faults in the logic: one database is enough.
pytestmark = [pytest.mark.django_db(transaction=True), sqlite_only]

# The same examples every time; the first that fails will do, however long.
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
    assert met, "the fault was never met: the statement reads differently now"
