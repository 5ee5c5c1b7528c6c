"""Locks for user code: at most one holder of a key in a firm, for a time."""

from __future__ import annotations

from jobs.engine import userlocks
from jobs.enqueue import MAX_KEY_LENGTH, firm_in_scope
from jobs.models import ConcurrencyLock
from tenants.models import Firm


def acquire_lock(
    key: str,
    ttl_seconds: float,
    *,
    firm: Firm | int | None = None,
    holder_id: str | None = None,
) -> ConcurrencyLock | None:
    """Take the firm's lock `key` for `ttl_seconds`; None while it is taken.

    Give it back with `release_lock`, hold it longer with `renew_lock`. Each acquisition has a
    higher `fencing_token`: hand it to whatever can refuse an older one. `firm` as in `enqueue`.

    Raises:
        ValueError: the key is empty or longer than 200 characters, or the time is not above zero.
        MissingTenant: as `enqueue`.
    """
    if not 1 <= len(key) <= MAX_KEY_LENGTH:
        raise ValueError(f"key must have 1 to {MAX_KEY_LENGTH} characters")
    _check_ttl(ttl_seconds)
    return userlocks.acquire(firm_in_scope(firm), key, ttl_seconds, holder_id)


def release_lock(lock: ConcurrencyLock) -> bool:
    """Free the lock. False: it expired and somebody else took it, or it is gone."""
    return userlocks.release(lock)


def renew_lock(lock: ConcurrencyLock, ttl_seconds: float) -> bool:
    """Hold the lock for another `ttl_seconds` from now. False: it is no longer held.

    Raises:
        ValueError: the time is not above zero.
    """
    _check_ttl(ttl_seconds)
    return userlocks.renew(lock, ttl_seconds)


def _check_ttl(ttl_seconds: float) -> None:
    if not 0 < ttl_seconds < float("inf"):
        raise ValueError("ttl_seconds must be above zero")
