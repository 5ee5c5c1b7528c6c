"""What every test may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from jobs.registry import JobType
    from tenants.models import Firm

# Machines differ in speed, and a slow example proves nothing.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.register_profile(
    "soak", settings.get_profile("suite"), max_examples=5_000, stateful_step_count=100
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the option of `make chaos`."""
    parser.addoption(
        "--chaos", action="store_true", help="the long runs: more jobs, more kills, more examples"
    )


@pytest.fixture
def chaos(request: pytest.FixtureRequest) -> bool:
    """Whether the long runs are asked for."""
    return bool(request.config.getoption("--chaos"))


@pytest.fixture
def system_firm(db: None) -> Firm:
    """Return the reserved firm, which a flush between tests may have removed."""
    from tenants.models import SYSTEM_SLUG, Firm

    return Firm.objects.get_or_create(slug=SYSTEM_SLUG, defaults={"name": "System"})[0]


@pytest.fixture
def firm(system_firm: Firm) -> Firm:
    """Return a firm."""
    from tenants.models import Firm

    return Firm.objects.create(name="Acme", slug="acme")


@pytest.fixture
def other_firm(system_firm: Firm) -> Firm:
    """Return another firm, whose rows nobody of the first may see."""
    from tenants.models import Firm

    return Firm.objects.create(name="Globex", slug="globex")


@pytest.fixture
def job_types(monkeypatch: pytest.MonkeyPatch) -> dict[str, JobType]:
    """Let a test declare job types of its own, which are gone after it; returns the registry."""
    from jobs import registry

    types = dict(registry._types)
    monkeypatch.setattr(registry, "_types", types)
    return types
