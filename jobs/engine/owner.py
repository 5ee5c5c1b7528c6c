"""Whether the firm and the user of a job still exist."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth import get_user_model

from jobs.engine.claim import Claim
from tenants.models import Firm

# A deletion ends the jobs first: only who deletes by SQL can be this much faster than a handler.
KNOWN_SECONDS = 1.0
MOST_KNOWN = 10_000

# When the firm or user was seen last, by the monotonic clock.
_seen: dict[tuple[str, Any], float] = {}


def gone_owner(claim: Claim) -> str | None:
    """Name the owner of the job that does not exist any more; None when all do.

    A firm or user that existed within the last second counts as existing.
    """
    if not _exists("firm", claim.firm_id):
        return f"firm {claim.firm_id}"
    if claim.user_id is not None and not _exists("user", claim.user_id):
        return f"user {claim.user_id}"
    return None


def forget_owners() -> None:
    """Ask the database again for every firm and user."""
    _seen.clear()


def _exists(kind: str, key: Any) -> bool:
    now = time.monotonic()
    seen = _seen.get((kind, key))
    if seen is not None and now - seen < KNOWN_SECONDS:
        return True
    rows = Firm.objects if kind == "firm" else get_user_model()._base_manager
    if not rows.filter(pk=key).exists():
        _seen.pop((kind, key), None)
        return False
    if len(_seen) >= MOST_KNOWN:
        _seen.clear()
    _seen[kind, key] = now
    return True
