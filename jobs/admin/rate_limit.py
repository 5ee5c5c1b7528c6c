"""Rate limits in the admin, and how much of each is left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from unfold.decorators import display
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from interfaces.admin.operations import Answers, OperationForm, OptionalReasonForm
from jobs.admin.base import type_choices
from jobs.admin.filters import JobTypeFilter
from jobs.admin.firm_or_all import FirmOrAllAdmin, where_in_words
from jobs.admin.operations import QueueOperation
from jobs.models import RateBucket, RateLimit
from jobs.operations import limits
from jobs.queries.durations import in_words
from tenants.admin.filters import FirmFilter
from tenants.admin.firm_choice import FirmChoiceForm
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


class RateForm(OperationForm):
    """How many jobs may start in how many seconds."""

    amount = _number("Starts")
    per_seconds = _number("In seconds", "10 starts in 60 seconds: one every 6 seconds on average.")
    burst = _number(
        "Burst",
        "Most that may start at once after a quiet time; empty means as many as the starts above.",
        required=False,
    )


class ChangeRateForm(RateForm):
    """A rate, as it is and as it should be."""

    def prepare(self, request: HttpRequest, row: RateLimit) -> None:
        """Start from the rate in force."""
        self.initial = {
            "amount": row.amount,
            "per_seconds": f"{row.per_seconds:g}",
            "burst": row.burst,
        }


class NewRateForm(FirmChoiceForm, RateForm):
    """Which type to limit, where, and to what."""

    role = Role.ADMIN
    field_order = ("everywhere", "firm", "job_type")
    job_type = forms.ChoiceField(
        label="Type",
        choices=lambda: [("", "Choose a type"), *type_choices()],
        widget=UnfoldAdminSelectWidget(),
    )


def rate_in_words(limit: RateLimit) -> str:
    """Return the exact rate in words: "10 in 1 min", "3 in 90 s"."""
    for size, unit in ((3600, "h"), (60, "min")):
        if limit.per_seconds % size == 0:
            return f"{limit.amount:,} in {limit.per_seconds / size:g} {unit}"
    return f"{limit.amount:,} in {limit.per_seconds:g} s"


def _set(job_type: str, firm: Firm | None, answers: Answers, by: Actor) -> RateLimit:
    return limits.set_rate_limit(
        job_type,
        answers["amount"],
        answers["per_seconds"],
        burst=answers["burst"],
        firm=firm,
        by=by,
    )


def _firm_of(limit: RateLimit) -> Firm | None:
    return None if limit.everywhere else limit.firm


def _seen(limit: RateLimit) -> str:
    return f"{limit.amount} {limit.per_seconds} {limit.burst}"


@admin.register(RateLimit)
class RateLimitAdmin(FirmOrAllAdmin):
    """How many jobs of a type may start in a time."""

    operations = (
        QueueOperation(
            name="rate",
            label="Change",
            icon="edit",
            role=Role.ADMIN,
            form=ChangeRateForm,
            effect="Holds for every start from now on.",
            seen=_seen,
            perform=lambda limit, answers, by: _set(limit.job_type, _firm_of(limit), answers, by),
            report=lambda limit: f"Changed: {limit.job_type}, {rate_in_words(limit)}.",
        ),
        QueueOperation(
            name="clear",
            label="Clear",
            icon="delete",
            variant="danger",
            role=Role.ADMIN,
            form=OptionalReasonForm,
            effect="What waits for this limit starts as fast as workers take it.",
            seen=_seen,
            perform=lambda limit, answers, by: limits.clear_rate_limit(
                limit.job_type, firm=_firm_of(limit), reason=answers["reason"], by=by
            ),
            report=lambda limit: f"Cleared: {limit.job_type}.",
        ),
    )
    list_operations = (
        QueueOperation(
            name="new",
            label="Set a limit",
            icon="speed",
            variant="primary",
            role=Role.ADMIN,
            form=NewRateForm,
            effect="Jobs of the type start no more often than this, each firm counted for itself. "
            "The others wait and use no attempts. A firm's own limit stands before the one for "
            "every firm; a limit that is there already is changed.",
            perform=lambda _, answers, by: _set(answers["job_type"], answers["firm"], answers, by),
            report=lambda limit: (
                f"Set: {limit.job_type}, {rate_in_words(limit)}, {where_in_words(limit)}."
            ),
        ),
    )
    list_display = ("job_type", "where", "rate", "burst", "left")
    list_filter = (JobTypeFilter, FirmFilter)
    ordering = ("job_type", "firm_id", "id")
    fields = ("job_type", "where", "rate", "burst", "left", "created_at")
    readonly_fields = ("where", "rate", "left")

    def get_queryset(self, request: HttpRequest) -> QuerySet[RateLimit]:
        """Add the columns of each firm's token bucket."""
        buckets = RateBucket.objects.filter(
            firm_id=OuterRef("firm_id"), job_type=OuterRef("job_type")
        )
        limits: QuerySet[RateLimit] = super().get_queryset(request)
        return limits.annotate(
            **{
                f"bucket_{column}": Subquery(buckets.values(column)[:1])
                for column in ("tokens", "granted", "refilled_at")
            }
        )

    def subject(self, row: RateLimit) -> str:
        """Return the type, the rate and the firm."""
        return f"{row.job_type}, {rate_in_words(row)}: {where_in_words(row)}"

    @display(description="At most")
    def rate(self, limit: RateLimit) -> str:
        """Return the rate."""
        return rate_in_words(limit)

    @display(description="Now")
    def left(self, limit: Any) -> str:
        """Return how many may start now, or when the next one may."""
        if limit.everywhere:
            return "counted for each firm"
        return _left_in_words(limit, timezone.now())


def _left_in_words(limit: Any, now: datetime) -> str:
    if limit.bucket_tokens is None:
        return f"{limit.burst} may start"
    elapsed = max((now - limit.bucket_refilled_at).total_seconds(), 0.0)
    tokens = limit.bucket_tokens + elapsed * limit.amount / limit.per_seconds
    left = int(min(tokens, limit.burst - limit.bucket_granted))
    if left > 0:
        return f"{left} may start"
    if tokens >= 1:
        return f"{limit.bucket_granted} let through, about to start"
    wait = (1 - tokens) * limit.per_seconds / limit.amount
    return f"next in {in_words(wait)}"
