"""Firms in the admin; platform staff sets their share of the workers, their cap, their state."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, OperationRefused, ReasonForm
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.admin.filters import ActiveFilter
from tenants.audit import Actor, record_operation
from tenants.models import Firm
from tenants.scope import require_scope

LIMITS = ("active", "weight", "running_cap", "retention_days")
MIN_WEIGHT, MAX_WEIGHT = 0.01, 1000
MAX_CAP = 1_000_000
MAX_RETENTION_DAYS = 3650


class LimitsForm(ReasonForm):
    """A firm's limits, with the reason for the change."""

    active = forms.BooleanField(
        required=False,
        help_text="While it is off, the firm's jobs and schedules wait, and its members are "
        "kept out.",
    )
    weight = forms.FloatField(
        min_value=MIN_WEIGHT,
        max_value=MAX_WEIGHT,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        help_text="Its share of the workers' turns: 2 gets twice as many as 1.",
    )
    running_cap = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_CAP,
        label="Running at once, at most",
        help_text="Empty means no limit.",
    )
    retention_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_RETENTION_DAYS,
        label="Days that finished jobs are kept",
        help_text="Empty means as everywhere (JOB_RETENTION_DAYS).",
    )
    field_order = [*LIMITS, "reason"]

    def prepare(self, request: HttpRequest, row: Firm) -> None:
        """Start from the limits in force."""
        self.initial = _limits(row)


def _limits(firm: Firm) -> dict[str, Any]:
    return {name: getattr(firm, name) for name in LIMITS}


def _change_limits(firm: Firm, *, reason: str, by: Actor, **limits: Any) -> None:
    if firm.is_system and not limits["active"]:
        message = "The system firm's jobs keep the queue in order: it stays active."
        raise OperationRefused(message, field="active", status=HTTPStatus.BAD_REQUEST)
    before = _limits(firm)
    after = {name: value for name, value in limits.items() if value != before[name]}
    if not after:
        raise OperationRefused("Nothing is different.", status=HTTPStatus.BAD_REQUEST)
    for name, value in after.items():
        setattr(firm, name, value)
    firm.save(update_fields=list(after))
    record_operation(
        by,
        "firm.limits",
        firm_id=firm.pk,
        target=("firm", firm.pk),
        reason=reason,
        before={name: before[name] for name in after},
        after=after,
    )


def _state(firm: Firm) -> str:
    return "active" if firm.active else "inactive"


def _limits_in_words(firm: Firm) -> str:
    cap = "no cap" if firm.running_cap is None else f"at most {firm.running_cap:,} running"
    days = firm.retention_days
    kept = "as long as everywhere" if days is None else f"for {days:,} days"
    return f"{firm.name}: {_state(firm)}, weight {firm.weight:g}, {cap}, jobs kept {kept}."


@admin.register(Firm)
class FirmAdmin(TenantOperationsAdmin):
    """The firms in scope."""

    operations: tuple[Operation, ...] = (
        Operation(
            name="limits",
            label="Change limits",
            icon="tune",
            variant="primary",
            form=LimitsForm,
            effect="Holds for every job that starts from now on; what runs goes on to its end.",
            seen=lambda firm: str(_limits(firm)),
            perform=_change_limits,
            report=_limits_in_words,
        ),
    )
    list_display = ("name", "slug", "state", "weight", "running_cap", "retention_days")
    list_filter = (ActiveFilter,)
    search_fields = ("name", "slug__exact")
    search_help_text = "Part of the name, or slug"
    ordering = ("slug",)
    state = column("State", _state, label={"active": "success", "inactive": "warning"})
    fields = ("name", "slug", "active", "weight", "running_cap", "retention_days", "created_at")

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow platform staff: all firms share the workers."""
        return access_in(request).is_platform_staff

    def get_queryset(self, request: HttpRequest) -> QuerySet[Firm]:
        """Leave out the firms out of scope: the firm table itself has no row level security."""
        firms: QuerySet[Firm] = super().get_queryset(request)
        allowed = require_scope("Firm").firm_ids
        return firms if allowed is None else firms.filter(pk__in=allowed)
