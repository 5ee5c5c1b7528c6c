"""`audit/`: what was done, by whom, and why."""

from __future__ import annotations

from typing import Any, get_args

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied

from jobs.api.query import AuditQuery
from jobs.api.views import QueueView, list_operation
from jobs.queries.filters import filter_audit_log
from jobs.queries.lists import Page
from jobs.queries.serializers.fields import NullableTextField, RedactedField, TimestampField
from tenants.audit import Door, hide_private_values
from tenants.models import AuditEntry, Role


class AuditEntrySerializer(serializers.Serializer[Any]):
    """One operation of a person or of the service itself."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    created_at = TimestampField()
    actor = serializers.CharField(
        source="actor_name", help_text="The user's name, or for example cli:deploy."
    )
    door = serializers.ChoiceField(get_args(Door), help_text="How the actor reached the service.")
    operation = serializers.CharField(source="act", help_text="For example job.retry.")
    target_type = serializers.CharField()
    target_id = serializers.CharField()
    reason = NullableTextField()
    before = RedactedField("The changed fields before; null if the caller may not see them.")
    after = RedactedField("The changed fields after; null if the caller may not see them.")
    correlation_id = NullableTextField("The correlation id of the request that did it.")


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
