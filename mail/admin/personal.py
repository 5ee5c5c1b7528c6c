"""What the pages of a person's own rows share."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from interfaces.admin.operations import Operation
from mail.admin.base import MailAdmin
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.models import Role


class PersonalAdmin(TenantOperationsAdmin, MailAdmin):
    """Rows of one person (`user_id`): theirs to change, and an admin's to end."""

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow its person everything, and an admin what is not an edit."""
        if row is None:
            return super().may(request, operation, row)
        if row.user_id == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return operation.name != "edit" and super().may(request, operation, row)
