"""What pauses and rate limits share: either can hold for one firm or for every firm."""

from __future__ import annotations

from jobs.models import Pause, RateLimit
from tenants.access import Access
from tenants.admin.acts import Act


class FirmOrAllAct(Act):
    """An act on what may hold for every firm; where it does, it is for platform staff."""

    def allowed(self, access: Access, row: Pause | RateLimit) -> bool:
        """Ask for the role in the row's firm, and for more where it holds everywhere."""
        return super().allowed(access, row) and (access.is_platform_staff or not row.everywhere)


def where_in_words(row: Pause | RateLimit) -> str:
    """Name the firm, or say that it is every firm."""
    return "every firm" if row.everywhere else row.firm.name
