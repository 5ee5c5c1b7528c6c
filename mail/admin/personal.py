"""The base of pages with rows of one person."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from interfaces.admin.operations import Operation
from mail.admin.base import MailAdmin
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.models import Role


class PersonalAdmin(TenantOperationsAdmin, MailAdmin):
    """Rows of one person (`user_id`), who may change them; an admin may only end them."""

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow the person everything, and an admin every operation but the edit."""
        if row is None:
            return super().may(request, operation, row)
        if row.user_id == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return operation.name != "edit" and super().may(request, operation, row)
