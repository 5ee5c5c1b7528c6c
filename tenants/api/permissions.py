"""Who may use the API at all. What a role may do in a firm is asked row by row, by the views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

if TYPE_CHECKING:
    from tenants.api.views import FirmView


class DenyAll(BasePermission):
    """The default: a view has to say whom it serves."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse."""
        return False


class IsMember(BasePermission):
    """Members of at least one active firm, and platform staff."""

    message = "You are not a member of any active firm."

    def has_permission(self, request: Request, view: FirmView) -> bool:
        """Allow whoever has a firm in sight."""
        return view.access.firm_ids != frozenset()
