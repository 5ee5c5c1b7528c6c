"""Rate limits in the admin, and how much of each is left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from unfold.decorators import display

from jobs.admin.everywhere import FirmOrAllAdmin, where_in_words
from jobs.admin.filters import FirmFilter, JobTypeFilter
from jobs.admin.rate_limit_acts import ChangeLimit, ClearLimit, SetLimit, rate_in_words
from jobs.models import RateBucket, RateLimit
from jobs.queries.durations import in_words


@admin.register(RateLimit)
class RateLimitAdmin(FirmOrAllAdmin):
    """How often types may start."""

    acts = (ChangeLimit(), ClearLimit())
    list_acts = (SetLimit(),)
    list_select_related = ("firm",)
    list_display = ("job_type", "where", "rate", "burst", "left")
    list_filter = (JobTypeFilter, FirmFilter)
    ordering = ("job_type", "firm_id", "id")
    fields = ("job_type", "where", "rate", "burst", "left", "created_at")
    readonly_fields = ("where", "rate", "left")

    def get_queryset(self, request: HttpRequest) -> QuerySet[RateLimit]:
        """Add to each limit what its firm's bucket holds."""
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
        """Name the type, the rate and where it holds."""
        return f"{row.job_type}, {rate_in_words(row)}: {where_in_words(row)}"

    def after_act(self, row: RateLimit) -> str:
        """Return to the list: the limit may be gone."""
        return reverse("admin:jobs_ratelimit_changelist")

    @display(description="At most")
    def rate(self, limit: RateLimit) -> str:
        """Show the rate."""
        return rate_in_words(limit)

    @display(description="Now")
    def left(self, limit: Any) -> str:
        """Say how many may start now, or when the next one may."""
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
