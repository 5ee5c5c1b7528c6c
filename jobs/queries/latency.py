"""Percentiles of waits and run times by category, from the buckets that workers store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil

from django.db.models import Sum

from jobs.engine.rollups import span_start
from jobs.models import LatencyBucket, PlatformLatency
from jobs.models.rollup import BUCKET_SECONDS, LONG_SPAN, SHORT_SPAN
from jobs.states import Measure
from tenants.scope import require_scope

SHARES = (0.5, 0.95, 0.99)
# Up to this length the short spans are read.
MOST_SHORT = timedelta(hours=3)


@dataclass(frozen=True)
class Percentiles:
    """The p50, p95 and p99 of one measure, in seconds, and of how many attempts.

    The times in a bucket are taken to be spread evenly; a time beyond the last bound counts as that
    bound.
    """

    attempts: int
    p50: float
    p95: float
    p99: float


def latency(since: datetime, now: datetime) -> dict[tuple[str, Measure], Percentiles]:
    """Return the percentiles by category and measure, of the firms in scope, of whole spans."""
    minutes = SHORT_SPAN if now - since <= MOST_SHORT else LONG_SPAN
    sees_all = require_scope("times").firm_ids is None
    source = PlatformLatency if sees_all else LatencyBucket
    rows = source._default_manager.filter(
        span_minutes=minutes, span_start__gte=span_start(since, minutes)
    )
    counts: dict[tuple[str, Measure], list[int]] = defaultdict(
        lambda: [0] * (len(BUCKET_SECONDS) + 1)
    )
    for category, measure, bucket, attempts in (
        rows.values_list("category", "measure", "bucket").annotate(Sum("attempts")).order_by()
    ):
        counts[category, Measure(measure)][bucket] = attempts
    return {
        key: Percentiles(sum(buckets), *(percentile(buckets, share) for share in SHARES))
        for key, buckets in counts.items()
    }


def percentile(buckets: Sequence[int], share: float) -> float:
    """Return the time that this share of the attempts did not exceed, in seconds."""
    wanted = max(1, ceil(sum(buckets) * share))
    for bucket, until in enumerate(accumulate(buckets)):
        if until >= wanted:
            if bucket == len(BUCKET_SECONDS):
                break
            lower = BUCKET_SECONDS[bucket - 1] if bucket else 0.0
            within = (wanted - (until - buckets[bucket])) / buckets[bucket]
            return lower + (BUCKET_SECONDS[bucket] - lower) * within
    return float(BUCKET_SECONDS[-1])
