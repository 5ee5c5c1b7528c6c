"""What every test may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenants.models import Firm


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
