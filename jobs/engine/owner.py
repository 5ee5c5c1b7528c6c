"""The firm of a job for which none is named; and whether a job's firm and user still exist."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Literal

from django.contrib.auth import get_user_model
from django.db import router

from jobs.engine.claim import Claim
from jobs.engine.transactions import run_alone
from jobs.errors import ArgumentsInvalid, Fault
from tenants.models import SYSTEM_SLUG, Firm
from tenants.users import is_stored

# Three rows tell one firm from several, because the reserved firm is among them.
FIRST_FIRMS_SQL = "SELECT id, slug FROM tenants_firm ORDER BY id LIMIT 3"
# A deletion ends the jobs first, so only a firm or user that was deleted by SQL can still count as
# existing within this time.
KNOWN_SECONDS = 1.0
# How long a claim may wait for its thread after its owner was looked up.
START_SECONDS = 10.0
MOST_KNOWN = 10_000
MOST_ID = 2**63 - 1

Kind = Literal["firm", "user"]

# When the firm or user was seen last, by the monotonic clock.
_seen: dict[tuple[Kind, Any], float] = {}


def only_firm_id() -> int | None:
    """Return the only firm's id, or the reserved one's if there is no other; None if several.

    This bypasses the ORM, which would take longer than storing the job.
    """
    firms = run_alone(FIRST_FIRMS_SQL, [], fixed=True).rows
    own = [firm_id for firm_id, slug in firms if slug != SYSTEM_SLUG]
    if own:
        return own[0] if len(own) == 1 else None
    return firms[0][0] if firms else Firm.objects.system().pk


def look_up_owners(claims: Iterable[Claim]) -> None:
    """Look up the firms and users of claims that are about to start, all at once.

    Then `gone_owner` needs no query, so that handlers' threads need no connection for it.
    """
    firms = {claim.firm_id for claim in claims}
    users = {claim.user_id for claim in claims if claim.user_id is not None}
    look_up("firm", firms)
    look_up("user", users)


def gone_owner(claim: Claim) -> str | None:
    """Name the owner of the job that does not exist any more; None when all do.

    A firm or user that existed when the claim was handed to its thread, or within the second before
    that, counts as existing.
    """
    if not exists("firm", claim.firm_id):
        return f"firm {claim.firm_id}"
    if claim.user_id is not None and not exists("user", claim.user_id):
        return f"user {claim.user_id}"
    return None


def firm_id_of(firm: object) -> int:
    """Return the id of a firm, given as such or by its id.

    Raises:
        ArgumentsInvalid: there is no such firm, or it is no firm.
    """
    # Rows of other models have ids, too, so any row but a firm's is refused.
    if isinstance(firm, bool) or not isinstance(firm, Firm | int):
        message = f"must be a Firm or the id of one, not {type(firm).__name__}"
        raise ArgumentsInvalid([Fault("firm", "wrong_type", message)])
    firm_id: int | None = firm if isinstance(firm, int) else firm.pk
    # A caller that has a stored row has read it from the database. An id may be any number, even
    # one that SQLite cannot take as a parameter.
    if firm_id is None or not (
        is_stored(firm) or (0 < firm_id <= MOST_ID and exists("firm", firm_id))
    ):
        raise ArgumentsInvalid([Fault("firm", "unknown", f"no firm has the id {firm_id}")])
    return firm_id


def exists(kind: Kind, key: Any) -> bool:
    """Say whether there is such a firm or user, or was within the last seconds."""
    if _is_known(kind, key, START_SECONDS):
        return True
    look_up(kind, {key})
    return _is_known(kind, key, START_SECONDS)


def _is_known(kind: Kind, key: Any, seconds: float) -> bool:
    seen = _seen.get((kind, key))
    return seen is not None and time.monotonic() - seen < seconds


def look_up(kind: Kind, keys: set[Any]) -> None:
    """Look up firms or users, all at once: then `exists` needs no query for those there are."""
    asked = [key for key in keys if not _is_known(kind, key, KNOWN_SECONDS)]
    if not asked:
        return
    now = time.monotonic()
    model = Firm if kind == "firm" else get_user_model()
    # Not a replica, which may be behind.
    rows = model._base_manager.using(router.db_for_write(model))
    found = rows.in_bulk(asked)
    if len(_seen) >= MOST_KNOWN:
        _seen.clear()
    for key in asked:
        if model._meta.pk.to_python(key) in found:
            _seen[kind, key] = now
        else:
            _seen.pop((kind, key), None)
