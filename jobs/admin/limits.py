"""Rate limits in the admin, and what they have in common with pauses."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextInputWidget

from interfaces.admin.base import column, name_cell
from interfaces.admin.operations import Operation, OperationForm, OptionalReasonForm
from jobs.admin.base import QueueOperation, page_time, type_choices
from jobs.admin.filters import JobTypeFilter
from jobs.models import NotificationEndpoint, Pause, RateBucket, RateLimit
from jobs.models.limits import MAX_KEY_LENGTH
from jobs.operations import limits
from jobs.operations.limit_faults import LEAST_SECONDS, MOST
from jobs.queries.durations import in_words, plain_number
from jobs.registry import find
from jobs.states import CountedBy
from tenants.admin.base import FirmFilter, TenantOperationsAdmin, access_in
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.models import Role

COUNTED_BY = [
    (CountedBy.FIRM.value, "Per firm: the firm's jobs of the type"),
    (CountedBy.KEY.value, "Per limit key of a firm, such as a mailbox"),
    (CountedBy.ALL_FIRMS.value, "All firms together"),
]
COUNTED_BY_ONE_FIRM = COUNTED_BY[:-1]


def _help(name: str) -> str:
    return str(RateLimit._meta.get_field(name).help_text)  # type: ignore[union-attr]  # no relation


class RateForm(OperationForm):
    """How many jobs may start in how many seconds; begins with the rate in force."""

    amount = forms.IntegerField(
        label="Starts",
        min_value=1,
        max_value=MOST,
        help_text=_help("amount"),
    )
    per_seconds = forms.FloatField(
        label="In seconds",
        min_value=LEAST_SECONDS,
        max_value=MOST,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal"}),
        help_text="For example, 10 starts in 60 seconds: one every 6 seconds on average.",
    )
    burst = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST,
        help_text=f"{_help('burst')} Leave empty for the number above.",
    )

    def prepare(self, request: HttpRequest, row: RateLimit | None) -> None:
        """Start from the rate in force, if there is one."""
        if row is None:
            return
        seconds = plain_number(row.per_seconds)
        self.initial = {"amount": row.amount, "per_seconds": seconds, "burst": row.burst}


class NewRateForm(FirmChoiceForm, RateForm):
    """Which jobs to limit, where, and to what."""

    role = Role.ADMIN
    field_order = ("everywhere", "firm", "counted_by", "job_type", "limit_key")
    counted_by = forms.TypedChoiceField(
        required=False,
        empty_value=CountedBy.FIRM.value,
        choices=COUNTED_BY,
        initial=CountedBy.FIRM.value,
    )
    job_type = forms.TypedChoiceField(
        required=False,
        empty_value=None,
        label="Type",
        choices=lambda: [("", "Every type (only per limit key)"), *type_choices()],
    )
    limit_key = forms.CharField(
        required=False,
        empty_value=None,
        max_length=MAX_KEY_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_help("limit_key"),
    )

    def prepare(self, request: HttpRequest, row: RateLimit | None) -> None:
        """Offer limits that count all firms together only to platform staff."""
        super().prepare(request, row)
        if not access_in(request).is_platform_staff:
            self.fields["counted_by"].choices = COUNTED_BY_ONE_FIRM  # type: ignore[attr-defined]  # a choice field


def where(row: Pause | RateLimit | NotificationEndpoint) -> str:
    """Return the firm that a row holds for, or "every firm"."""
    return "every firm" if row.everywhere else row.firm.name


class LimitAdmin(TenantOperationsAdmin):
    """A list whose rows may apply to every firm; only platform staff may change those."""

    firm_columns = ("where",)
    returns_to_list = True
    list_select_related = ("firm",)
    where = column("Firm", lambda row: name_cell(where(row)))

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Compare roles; require platform staff where the row holds for every firm."""
        for_staff = row is not None and row.everywhere
        return super().may(request, operation, row) and (
            not for_staff or access_in(request).is_platform_staff
        )


def _rate(limit: RateLimit) -> str:
    """Return the exact rate in words: "10 in 1 min", "3 in 90 s"."""
    for size, unit in ((3600, "h"), (60, "min")):
        if limit.per_seconds % size == 0:
            return f"{limit.amount:,} in {plain_number(limit.per_seconds / size)} {unit}"
    return f"{limit.amount:,} in {plain_number(limit.per_seconds)} s"


def _seen_rate(limit: RateLimit) -> str:
    return f"{limit.amount} {limit.per_seconds} {limit.burst}"


def _counting(limit: RateLimit) -> dict[str, Any]:
    """Return the arguments that say what the limit counts together."""
    return {
        "firm": None if limit.everywhere else limit.firm,
        "limit_key": limit.limit_key,
        "counted_by": limit.counted_by,
    }


def _left(limit: Any) -> str:
    if limit.counted_by == CountedBy.KEY and not limit.limit_key:
        return "counted for each limit key"
    if limit.everywhere and limit.counted_by != CountedBy.ALL_FIRMS:
        return "counted for each firm"
    if limit.bucket_tokens is None:
        return _may_start(limit, limit.burst)
    elapsed = max((page_time() - limit.bucket_refilled_at).total_seconds(), 0.0)
    tokens = limit.bucket_tokens + elapsed * limit.amount / limit.per_seconds
    left = int(min(tokens, limit.burst - limit.bucket_granted))
    if left > 0:
        return _may_start(limit, left)
    if tokens >= 1:
        return f"{limit.bucket_granted} admitted, about to start"
    wait = (1 - tokens) * limit.per_seconds / limit.amount
    return f"next in {in_words(wait)}"


def _may_start(limit: Any, units: int) -> str:
    declared = find(limit.job_type)
    one_each = declared is None or declared.limit_units == 1
    return f"{units} may start" if one_each else f"{units} units may start"


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
            effect="Applies to every job that starts from now on.",
            seen=_seen_rate,
            perform=lambda limit, **answers: limits.set_rate_limit(
                limit.job_type, **_counting(limit), **answers
            ),
            report=lambda limit: f"Changed: {limit.subject}, {_rate(limit)}.",
        ),
        QueueOperation(
            name="clear",
            label="Clear",
            icon="delete",
            variant="danger",
            role=Role.ADMIN,
            form=OptionalReasonForm,
            effect="Jobs that wait for this limit start as soon as workers are free.",
            seen=_seen_rate,
            perform=lambda limit, **answers: limits.clear_rate_limit(
                limit.job_type, **_counting(limit), **answers
            ),
            report=lambda limit: f"Cleared: {limit.subject}.",
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
            effect="Jobs that are counted together start at most this often; the others wait and "
            "use no attempts. A firm's own limit applies instead of the one for every firm. If "
            "this limit exists already, it is changed.",
            perform=limits.set_rate_limit,
            report=lambda limit: f"Set: {limit.subject}, {_rate(limit)}, {where(limit)}.",
        ),
    )
    empty_text = "No rate limits: jobs start as soon as workers are free."
    list_display = ("limited", "where", "counted", "rate", "burst", "left")
    list_filter = (JobTypeFilter, FirmFilter)
    ordering = ("job_type", "firm_id", "id")
    fields = (
        *("job_type", "limit_key", "where", "counted", "rate", "burst", "left"),
        "created_at",
    )
    limited = column("Limit", lambda limit: limit.subject)
    counted = column("Counted by", lambda limit: limit.counted_by.replace("_", " "))
    rate = column("At most", _rate)
    left = column("Now", _left)

    def get_queryset(self, request: HttpRequest) -> QuerySet[RateLimit]:
        """Add the columns of each firm's token bucket."""
        names = ("firm_id", "counted_by", "job_type", "limit_key")
        buckets = RateBucket.objects.filter(**{name: OuterRef(name) for name in names})
        limits: QuerySet[RateLimit] = super().get_queryset(request)
        return limits.annotate(
            **{
                f"bucket_{column}": Subquery(buckets.values(column)[:1])
                for column in ("tokens", "granted", "refilled_at")
            }
        )

    def subject(self, row: RateLimit) -> str:
        """Return the type, the rate and the firm."""
        return f"{row.subject}, {_rate(row)}: {where(row)}"
