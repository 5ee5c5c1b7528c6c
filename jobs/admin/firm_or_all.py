"""What pauses and rate limits share: each holds for one firm or for every firm."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from unfold.decorators import display

from interfaces.admin.operations import Operation
from jobs.models import Pause, RateLimit
from tenants.admin.base import TenantOperationsAdmin, access_in


class FirmOrAllAdmin(TenantOperationsAdmin):
    """A list whose rows may hold for every firm; platform staff alone changes those."""

    firm_columns = ("where",)
    returns_to_list = True
    list_select_related = ("firm",)

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Compare roles; require platform staff where the row holds for every firm."""
        for_staff = row is not None and row.everywhere
        return super().may(request, operation, row) and (
            not for_staff or access_in(request).is_platform_staff
        )

    @display(description="Firm")
    def where(self, row: Pause | RateLimit) -> str:
        """Name the firm, or say that it is every firm."""
        return where_in_words(row)


def where_in_words(row: Pause | RateLimit) -> str:
    """Name the firm, or say that it is every firm."""
    return "every firm" if row.everywhere else row.firm.name
