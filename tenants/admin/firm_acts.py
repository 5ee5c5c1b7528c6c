"""What platform staff set for a firm: its share of the workers, its cap, whether it works at all."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from tenants.access import Access
from tenants.admin.acts import Act, ActRefused, Answers, ReasonForm
from tenants.audit import Actor, record_operation
from tenants.models import Firm

LIMITS = ("active", "weight", "running_cap")
MIN_WEIGHT, MAX_WEIGHT = 0.01, 1000
MAX_CAP = 1_000_000


class LimitsForm(ReasonForm):
    """A firm's limits, and why they are to be other ones."""

    active = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget(),
        help_text="While it is off, the firm's jobs and schedules wait, and its members are "
        "kept out.",
    )
    weight = forms.FloatField(
        min_value=MIN_WEIGHT,
        max_value=MAX_WEIGHT,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal"}),
        help_text="Its share of the workers' turns: 2 gets twice as many as 1.",
    )
    running_cap = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_CAP,
        label="Running at once, at most",
        widget=UnfoldAdminIntegerFieldWidget(),
        help_text="Empty means no limit.",
    )
    field_order = [*LIMITS, "reason"]


class ChangeLimits(Act):
    """Sets weight, cap and whether the firm works."""

    name = "limits"
    label = "Change limits"
    done = "changed"
    icon = "tune"
    variant = "primary"

    def allowed(self, access: Access, row: Firm) -> bool:
        """Leave it to platform staff: the workers are shared by all firms."""
        return access.is_platform_staff

    def consequence(self, row: Firm | None) -> str:
        """Say from when."""
        return "Holds for every job that starts from now on; what runs goes on to its end."

    def form(self, row: Firm, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask with the limits as they are."""
        return LimitsForm(data, initial=_limits(row))

    def seen(self, row: Firm) -> str:
        """Rest on the limits."""
        return str(_limits(row))

    def perform(self, row: Firm, answers: Answers, by: Actor) -> None:
        """Set what is different, and write it down."""
        if row.is_system and not answers["active"]:
            message = "The system firm's jobs keep the queue in order: it stays active."
            raise ActRefused(message, field="active", status=HTTPStatus.BAD_REQUEST)
        before = _limits(row)
        changed = [name for name in LIMITS if before[name] != answers[name]]
        if not changed:
            raise ActRefused("Nothing is different.", status=HTTPStatus.BAD_REQUEST)
        for name in changed:
            setattr(row, name, answers[name])
        row.save(update_fields=changed)
        record_operation(
            by,
            "firm.limits",
            firm_id=row.pk,
            target=("firm", row.pk),
            reason=answers["reason"],
            before={name: before[name] for name in changed},
            after={name: answers[name] for name in changed},
        )

    def told(self, row: Firm) -> str:
        """Say what holds now."""
        cap = "no cap" if row.running_cap is None else f"at most {row.running_cap:,} running"
        return (
            f"{row.name}: {'active' if row.active else 'inactive'}, weight {row.weight:g}, {cap}."
        )


def _limits(firm: Firm) -> dict[str, Any]:
    return {name: getattr(firm, name) for name in LIMITS}
