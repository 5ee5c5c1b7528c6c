"""Firms and their members in the admin; platform staff sets firms' share of the workers, cap and state."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, OperationRefused, ReasonForm
from tenants.admin.base import (
    ActiveFilter,
    RoleFilter,
    TenantAdmin,
    TenantOperationsAdmin,
    access_in,
)
from tenants.audit import Actor, record_operation
from tenants.models import Firm, Membership
from tenants.scope import require_scope
from tenants.users import sign_in_field

LIMITS = ("active", "weight", "running_cap", "retention_days")
MIN_WEIGHT, MAX_WEIGHT = 0.01, 1000
MAX_CAP = 1_000_000
MAX_RETENTION_DAYS = 3650


class LimitsForm(ReasonForm):
    """A firm's limits, with the reason for the change."""

    active = forms.BooleanField(
        required=False,
        help_text=Firm._meta.get_field("active").help_text,
    )
    weight = forms.FloatField(
        min_value=MIN_WEIGHT,
        max_value=MAX_WEIGHT,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        help_text=Firm._meta.get_field("weight").help_text,
    )
    running_cap = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_CAP,
        label="Jobs running at once, at most",
        help_text="Leave empty for no limit.",
    )
    retention_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_RETENTION_DAYS,
        label="Keep finished jobs for this many days",
        help_text="Leave empty for the general setting (JOB_RETENTION_DAYS).",
    )
    field_order = [*LIMITS, "reason"]

    def prepare(self, request: HttpRequest, row: Firm) -> None:
        """Start from the limits in force."""
        self.initial = _limits(row)


def _limits(firm: Firm) -> dict[str, Any]:
    return {name: getattr(firm, name) for name in LIMITS}


def _change_limits(firm: Firm, *, reason: str, by: Actor, **limits: Any) -> None:
    if firm.is_system and not limits["active"]:
        message = "The system firm must stay active: its jobs maintain the queue."
        raise OperationRefused(message, field="active", status=HTTPStatus.BAD_REQUEST)
    before = _limits(firm)
    after = {name: value for name, value in limits.items() if value != before[name]}
    if not after:
        raise OperationRefused("Nothing was changed in the form.", status=HTTPStatus.BAD_REQUEST)
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
    kept = "as long as the general setting" if days is None else f"for {days:,} days"
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
            effect="Applies to every job that starts from now on. Running jobs go on to their end.",
            seen=lambda firm: str(_limits(firm)),
            perform=_change_limits,
            report=_limits_in_words,
        ),
    )
    list_display = ("name", "slug", "state", "weight", "running_cap", "retention_days")
    list_filter = (ActiveFilter,)
    search_fields = ("name", "slug__exact")
    search_help_text = "Part of the name, or the slug"
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


@admin.register(Membership)
class MembershipAdmin(TenantAdmin):
    """Who belongs to the firms in scope."""

    empty_text = "manage.py create_user EMAIL --firm FIRM --role ROLE --password-env VAR makes one."
    list_display = ("user", "firm", "role", "created_at")
    list_filter = (RoleFilter,)
    list_select_related = ("user", "firm")
    search_fields = (f"user__{sign_in_field()}",)
    search_help_text = "The user's sign-in name"
    ordering = ("firm", "role", "id")
    fields = ("user", "firm", "role", "created_at")
