"""What pauses and rate limits share: either can hold for one firm or for every firm."""

from __future__ import annotations

from django.http import HttpRequest
from unfold.decorators import display

from jobs.models import Pause, RateLimit
from tenants.access import Access
from tenants.admin.acts import Act
from tenants.admin.base import sees_several_firms
from tenants.admin.list_acts import ListActingAdmin


class FirmOrAllAct(Act):
    """An act on what may hold for every firm; where it does, it is for platform staff."""

    def allowed(self, access: Access, row: Pause | RateLimit) -> bool:
        """Ask for the role in the row's firm, and for more where it holds everywhere."""
        return super().allowed(access, row) and (access.is_platform_staff or not row.everywhere)


class FirmOrAllAdmin(ListActingAdmin):
    """A list of what may hold for every firm; its column `where` says for which."""

    def get_list_display(self, request: HttpRequest) -> list[str]:
        """Show where it holds only to those who see several firms."""
        columns = super().get_list_display(request)
        return columns if sees_several_firms() else [name for name in columns if name != "where"]

    @display(description="Firm")
    def where(self, row: Pause | RateLimit) -> str:
        """Name the firm, or say that it is every firm."""
        return where_in_words(row)


def where_in_words(row: Pause | RateLimit) -> str:
    """Name the firm, or say that it is every firm."""
    return "every firm" if row.everywhere else row.firm.name
