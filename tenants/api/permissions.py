"""Who may use the API at all. What a role may do in a firm is asked row by row, by the views."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from tenants.access import Access


class DenyAll(BasePermission):
    """The default: a view has to say whom it serves."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse."""
        return False


class IsMember(BasePermission):
    """Members of at least one active firm, and platform staff."""

    message = "You are not a member of any active firm."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Allow whoever has a firm in sight."""
        access: Access = view.access
        return access.firm_ids != frozenset()
