"""Sums of the counters by minute or hour, of the firms in scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q, Sum

from jobs.models import JobHour, JobMinute, JobMinuteDelta, PlatformHour, PlatformMinute
from tenants.scope import require_scope

SUMS_OF_ALL = {JobMinute: PlatformMinute, JobHour: PlatformHour}


def sum_counters(
    by: str, sums: Mapping[str, Sum], only: Q, folded: type[JobMinute] | type[JobHour] = JobMinute
) -> Iterable[dict[str, Any]]:
    """Return these sums of the counters in scope, up to two for each value of the column `by`.

    A caller who sees every firm gets the platform sums, unless `by` is the firm. One statement
    reads both tables, because deltas might be folded between two statements.
    """
    everything = require_scope("counters").firm_ids is None and by != "firm_id"
    source = SUMS_OF_ALL[folded] if everything else folded
    rows, deltas = (
        model._default_manager.filter(only).values(by).annotate(**sums).order_by()
        for model in (source, JobMinuteDelta)
    )
    found: Iterable[dict[str, Any]] = rows.union(deltas, all=True)
    return found
