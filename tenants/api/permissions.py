"""Who may use the API at all; the views check roles row by row."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from tenants.access import Access


class DenyAll(BasePermission):
    """The default: a view must declare its permissions."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse."""
        return False


class IsMember(BasePermission):
    """Members of at least one active firm, and platform staff."""

    message = "You are not a member of any active firm."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Allow users who see a firm."""
        access: Access = view.access
        return access.firm_ids != frozenset()
