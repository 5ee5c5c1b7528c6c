"""Three firms, the job types of the machine, and a database that started long ago."""

from __future__ import annotations

from typing import Any

import pytest

from tenants.models import Firm
from tests.factories.tenants import FirmFactory
from tests.properties.queue_machine.kinds import declare_kinds
from tests.properties.queue_machine.machine import QueueMachine


@pytest.fixture
def machine_firms(
    firm: Firm,
    other_firm: Firm,
    job_types: dict[str, Any],
    settled_database: None,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Firm]:
    """Return the firms of the machine."""
    declare_kinds()
    firms = [firm, other_firm, FirmFactory(name="Initech", slug="initech")]
    monkeypatch.setattr(QueueMachine, "firms", firms)
    return firms
