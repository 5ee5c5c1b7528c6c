"""Firms in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from tenants.admin.acts import ActingAdmin
from tenants.admin.filters import ActiveFilter
from tenants.admin.firm_acts import ChangeLimits
from tenants.models import Firm
from tenants.scope import require_scope


@admin.register(Firm)
class FirmAdmin(ActingAdmin):
    """The firms in scope."""

    acts = (ChangeLimits(),)
    list_display = ("name", "slug", "state", "weight", "running_cap", "retention_days")
    list_filter = (ActiveFilter,)
    search_fields = ("name", "slug__exact")
    ordering = ("slug",)
    fields = ("name", "slug", "active", "weight", "running_cap", "retention_days", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Firm]:
        """Leave out the firms the request may not see; the firm table itself has no wall."""
        firms: QuerySet[Firm] = super().get_queryset(request)
        allowed = require_scope("Firm").firm_ids
        return firms if allowed is None else firms.filter(pk__in=allowed)

    @display(description="State", label={"active": "success", "inactive": "warning"})
    def state(self, firm: Firm) -> str:
        """Say whether the firm's jobs run."""
        return "active" if firm.active else "inactive"
