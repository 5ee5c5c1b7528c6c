"""Setting, changing and clearing rate limits in the admin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from jobs.admin.base import type_choices
from jobs.admin.everywhere import FirmOrAllAct, where_in_words
from jobs.admin.refusals import refusals
from jobs.models import RateLimit
from jobs.operations import limits
from tenants.access import Access
from tenants.admin.acts import Answers, OptionalReasonForm
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.admin.list_acts import ListAct
from tenants.audit import Actor
from tenants.models import Firm, Role

MAX_NUMBER = 1_000_000


def _number(label: str, help_text: str = "", *, required: bool = True) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        required=required,
        min_value=1,
        max_value=MAX_NUMBER,
        help_text=help_text,
        widget=UnfoldAdminIntegerFieldWidget(),
    )


class RateForm(forms.Form):
    """How many starts in how many seconds."""

    amount = _number("Starts")
    per_seconds = _number("In seconds", "10 starts in 60 seconds: one every 6 seconds on average.")
    burst = _number(
        "Burst",
        "Most that may start at once after a quiet time; empty means as many as the starts above.",
        required=False,
    )


class NewRateForm(RateForm, FirmChoiceForm):
    """Which type to limit, where, and to what."""

    job_type = forms.ChoiceField(
        label="Type",
        choices=lambda: [("", "Choose a type"), *type_choices()],
        widget=UnfoldAdminSelectWidget(),
    )

    def __init__(self, access: Access, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(access, Role.ADMIN, data)
        self.order_fields(["everywhere", "firm", "job_type"])


class SetLimit(ListAct):
    """Limits how often a type starts."""

    name = "new"
    label = "Set a limit"
    icon = "speed"
    needed = Role.ADMIN
    text = (
        "Jobs of the type start no more often than this, each firm counted for itself. The others "
        "wait and use no attempts. A firm's own limit stands before the one for every firm; a "
        "limit that is there already is changed."
    )

    def form(self, access: Access, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask for the type, the firm and the rate."""
        return NewRateForm(access, data)

    def perform(self, answers: Answers, by: Actor) -> str:
        """Set the limit."""
        limit = _set(answers["job_type"], answers["firm"], answers, by)
        return f"Set: {limit.job_type}, {rate_in_words(limit)}, {where_in_words(limit)}."


class ChangeLimit(FirmOrAllAct):
    """Sets another rate."""

    name = "rate"
    label = "Change"
    done = "changed"
    icon = "edit"
    needed = Role.ADMIN
    form_class = RateForm

    def form(self, row: RateLimit, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask with the rate as it is."""
        rate = {"amount": row.amount, "per_seconds": f"{row.per_seconds:g}", "burst": row.burst}
        return RateForm(data, initial=rate)

    def consequence(self, row: RateLimit | None) -> str:
        """Say from when."""
        return "Holds for every start from now on."

    def seen(self, row: RateLimit) -> str:
        """Rest on the rate."""
        return f"{row.amount} {row.per_seconds} {row.burst}"

    def perform(self, row: RateLimit, answers: Answers, by: Actor) -> None:
        """Set the limit anew."""
        _set(row.job_type, None if row.everywhere else row.firm, answers, by)

    def told(self, row: RateLimit) -> str:
        """Say what holds now."""
        return f"Changed: {row.job_type}, {rate_in_words(row)}."


class ClearLimit(FirmOrAllAct):
    """Takes a limit away."""

    name = "clear"
    label = "Clear"
    done = "cleared"
    icon = "delete"
    variant = "danger"
    needed = Role.ADMIN
    form_class = OptionalReasonForm

    def consequence(self, row: RateLimit | None) -> str:
        """Say what may start then."""
        return "What waits for this limit starts as fast as workers take it."

    def seen(self, row: RateLimit) -> str:
        """Rest on the rate."""
        return f"{row.amount} {row.per_seconds} {row.burst}"

    def perform(self, row: RateLimit, answers: Answers, by: Actor) -> None:
        """Clear the limit."""
        with refusals():
            limits.clear_rate_limit(
                row.job_type,
                firm=None if row.everywhere else row.firm,
                reason=answers["reason"],
                by=by,
            )

    def told(self, row: RateLimit) -> str:
        """Say that it is gone."""
        return f"Cleared: {row.job_type}."


def rate_in_words(limit: RateLimit) -> str:
    """Say how many in how long, exactly: "10 in 1 min", "3 in 90 s"."""
    for size, unit in ((3600, "h"), (60, "min")):
        if limit.per_seconds % size == 0:
            return f"{limit.amount:,} in {limit.per_seconds / size:g} {unit}"
    return f"{limit.amount:,} in {limit.per_seconds:g} s"


def _set(job_type: str, firm: Firm | None, answers: Answers, by: Actor) -> RateLimit:
    with refusals():
        return limits.set_rate_limit(
            job_type,
            answers["amount"],
            answers["per_seconds"],
            burst=answers["burst"],
            firm=firm,
            by=by,
        )
