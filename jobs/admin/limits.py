"""Pauses and rate limits in the admin; each holds for one firm or for every firm."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from interfaces.admin.base import clipped, column
from interfaces.admin.operations import Operation, OperationForm, OptionalReasonForm, TextAnswer
from jobs.admin.base import LABELS, age, age_column, type_choices
from jobs.admin.filters import CategoryFilter, JobTypeFilter
from jobs.admin.operations import QueueOperation
from jobs.models import Pause, RateBucket, RateLimit
from jobs.operations import limits
from jobs.queries.durations import in_words
from jobs.states import Category
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.admin.filters import FirmFilter
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.models import Firm, Role

# The formats of a browser's datetime field, and of a person who types seconds.
TIME_FORMATS = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
MAX_NUMBER = 1_000_000


class PauseForm(FirmChoiceForm):
    """What to hold back, why, and until when."""

    category = forms.TypedChoiceField(
        required=False,
        empty_value=None,
        choices=[("", "Every category"), *((word.value, word.value) for word in Category)],
    )
    job_type = forms.TypedChoiceField(
        required=False,
        empty_value=None,
        label="Type",
        choices=lambda: [("", "Every type"), *type_choices()],
    )
    reason = TextAnswer(help_text="Shown with each job it holds back, and kept in the audit log.")
    until = forms.DateTimeField(
        required=False,
        label="Until (UTC)",
        input_formats=TIME_FORMATS,
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text="When it ends by itself; empty means somebody resumes it.",
    )


class RateForm(OperationForm):
    """How many jobs may start in how many seconds: as it is and as it should be."""

    amount = forms.IntegerField(label="Starts", min_value=1, max_value=MAX_NUMBER)
    per_seconds = forms.IntegerField(
        label="In seconds",
        min_value=1,
        max_value=MAX_NUMBER,
        help_text="10 starts in 60 seconds: one every 6 seconds on average.",
    )
    burst = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_NUMBER,
        help_text="Most that may start at once after a quiet time; empty means as many as the "
        "starts above.",
    )

    def prepare(self, request: HttpRequest, row: RateLimit) -> None:
        """Start from the rate in force."""
        per_seconds = f"{row.per_seconds:g}"
        self.initial = {"amount": row.amount, "per_seconds": per_seconds, "burst": row.burst}


class NewRateForm(FirmChoiceForm, RateForm):
    """Which type to limit, where, and to what."""

    role = Role.ADMIN
    field_order = ("everywhere", "firm", "job_type")
    job_type = forms.ChoiceField(
        label="Type", choices=lambda: [("", "Choose a type"), *type_choices()]
    )


def _where(row: Pause | RateLimit) -> str:
    return "every firm" if row.everywhere else row.firm.name


class LimitAdmin(TenantOperationsAdmin):
    """A list whose rows may hold for every firm; platform staff alone changes those."""

    firm_columns = ("where",)
    returns_to_list = True
    list_select_related = ("firm",)
    where = column("Firm", _where)

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Compare roles; require platform staff where the row holds for every firm."""
        for_staff = row is not None and row.everywhere
        return super().may(request, operation, row) and (
            not for_staff or access_in(request).is_platform_staff
        )


def subject_of(pause: Pause) -> str:
    """Return what is paused: "everything", "category export", "type sync in category sync"."""
    parts = {"type": pause.job_type, "category": pause.category}
    named = [f"{what} {value}" for what, value in parts.items() if value]
    key = f" with limit key {pause.limit_key}" if pause.limit_key else ""
    return (" in ".join(named) or "everything") + key


def _pause_state(pause: Pause) -> str:
    return "over" if pause.until is not None and pause.until <= timezone.now() else "holds"


@admin.register(Pause)
class PauseAdmin(LimitAdmin):
    """The pauses: what each holds back, why, and until when."""

    operations = (
        QueueOperation(
            name="resume",
            label="Resume",
            icon="play_arrow",
            variant="primary",
            form=OptionalReasonForm,
            effect="The pause is over, and what it held back runs in its turn.",
            # A new pause reuses the row of one that is over.
            seen=lambda pause: str(pause.created_at),
            perform=limits.resume,
            report=lambda pause: f"Resumed {subject_of(pause)}.",
        ),
    )
    list_operations = (
        QueueOperation(
            name="new",
            label="Pause work",
            icon="pause",
            variant="primary",
            form=PauseForm,
            effect="Nothing that matches starts while the pause stands. What runs goes on to its "
            "end, and nothing is lost: jobs wait and use no attempts.",
            perform=limits.pause,
            report=lambda pause: (
                f"Paused {subject_of(pause)} "
                f"{'everywhere' if pause.everywhere else f'of {pause.firm.name}'}."
            ),
        ),
    )
    list_display = ("held", "where", "state", "since", "ends", "paused_by", "why")
    list_filter = (CategoryFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = ("held", "where", "state", "reason", "paused_by", "created_at", "until")
    held = column("Paused", subject_of)
    state = column("State", _pause_state, label=LABELS)
    since = age_column("Since", "created_at")
    ends = column("Ends", lambda pause: age(pause.until) if pause.until else "by hand")
    why = column("Reason", lambda pause: clipped(pause.reason))

    def subject(self, row: Pause) -> str:
        """Say what the pause holds back, and where."""
        return f"{subject_of(row)}: {_where(row)}"


def _rate(limit: RateLimit) -> str:
    """Return the exact rate in words: "10 in 1 min", "3 in 90 s"."""
    for size, unit in ((3600, "h"), (60, "min")):
        if limit.per_seconds % size == 0:
            return f"{limit.amount:,} in {limit.per_seconds / size:g} {unit}"
    return f"{limit.amount:,} in {limit.per_seconds:g} s"


def _firm_of(limit: RateLimit) -> Firm | None:
    return None if limit.everywhere else limit.firm


def _seen_rate(limit: RateLimit) -> str:
    return f"{limit.amount} {limit.per_seconds} {limit.burst}"


def _left(limit: Any) -> str:
    if limit.everywhere:
        return "counted for each firm"
    if limit.bucket_tokens is None:
        return f"{limit.burst} may start"
    elapsed = max((timezone.now() - limit.bucket_refilled_at).total_seconds(), 0.0)
    tokens = limit.bucket_tokens + elapsed * limit.amount / limit.per_seconds
    left = int(min(tokens, limit.burst - limit.bucket_granted))
    if left > 0:
        return f"{left} may start"
    if tokens >= 1:
        return f"{limit.bucket_granted} let through, about to start"
    wait = (1 - tokens) * limit.per_seconds / limit.amount
    return f"next in {in_words(wait)}"


@admin.register(RateLimit)
class RateLimitAdmin(LimitAdmin):
    """How many jobs of a type may start in a time, and how many may start now."""

    operations = (
        QueueOperation(
            name="rate",
            label="Change",
            icon="edit",
            role=Role.ADMIN,
            form=RateForm,
            effect="Holds for every start from now on.",
            seen=_seen_rate,
            perform=lambda limit, **answers: limits.set_rate_limit(
                limit.job_type, firm=_firm_of(limit), **answers
            ),
            report=lambda limit: f"Changed: {limit.job_type}, {_rate(limit)}.",
        ),
        QueueOperation(
            name="clear",
            label="Clear",
            icon="delete",
            variant="danger",
            role=Role.ADMIN,
            form=OptionalReasonForm,
            effect="What waits for this limit starts as fast as workers take it.",
            seen=_seen_rate,
            perform=lambda limit, **answers: limits.clear_rate_limit(
                limit.job_type, firm=_firm_of(limit), **answers
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
            perform=limits.set_rate_limit,
            report=lambda limit: f"Set: {limit.job_type}, {_rate(limit)}, {_where(limit)}.",
        ),
    )
    list_display = ("job_type", "where", "rate", "burst", "left")
    list_filter = (JobTypeFilter, FirmFilter)
    ordering = ("job_type", "firm_id", "id")
    fields = ("job_type", "where", "rate", "burst", "left", "created_at")
    rate = column("At most", _rate)
    left = column("Now", _left)

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
        return f"{row.job_type}, {_rate(row)}: {_where(row)}"
