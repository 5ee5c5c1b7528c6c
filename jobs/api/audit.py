"""`audit/`: what was done, by whom, and why."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework.exceptions import PermissionDenied

from jobs.api.query import AuditQuery
from jobs.api.views import QueueView, list_operation
from jobs.queries.filters import filter_audit_log
from jobs.queries.lists import Page
from jobs.queries.serializers.audit import AuditEntrySerializer
from tenants.audit import hide_private_values
from tenants.models import AuditEntry, Role


class AuditLog(QueueView):
    """The audit log of the firms whose admin the caller is."""

    resource, tag = "audit", "audit log"
    model = AuditEntry

    list = list_operation(
        "List the audit log",
        "The latest entry first, of the firms in which the caller is an admin. Filters are "
        "combined. Details of changes to a private mailbox are shown only to those who may read "
        "it.",
        serializer=AuditEntrySerializer,
        rows="entries",
        query=AuditQuery,
    )

    def get_rows(self, **filters: Any) -> QuerySet[AuditEntry]:
        """Return the entries that meet the filters.

        Raises:
            PermissionDenied: the caller is no admin of any firm in scope.
        """
        rows = filter_audit_log(super().get_rows(), **filters)
        firms = self.access.firms(Role.ADMIN)
        if firms is None:
            return rows
        if not firms:
            raise PermissionDenied("The audit log is for admins of a firm.")
        return rows.filter(firm_id__in=firms)

    def get_page(self, filters: dict[str, Any], *, limit: int, cursor: str | None) -> Page[Any]:
        """Return a page of the entries, without the values that are not for the caller."""
        page = super().get_page(filters, limit=limit, cursor=cursor)
        hide_private_values(page.rows, self.request.user.pk)
        return page
