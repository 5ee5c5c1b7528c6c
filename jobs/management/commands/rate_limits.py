"""`manage.py rate_limits VERB`: how often types start."""

from __future__ import annotations

from jobs.management.subcommands.rate_limit_verbs import (
    ClearRateLimit,
    ListRateLimits,
    SetRateLimit,
)
from jobs.management.subcommands.verbs import VerbCommand


class Command(VerbCommand):
    """The rate limits of the queue."""

    help = "See, set and clear how often types start."
    verbs = (ListRateLimits(), SetRateLimit(), ClearRateLimit())
