"""Locks for user code: at most one holder of a key in a firm, for a time."""

from __future__ import annotations

from jobs.engine import user_locks
from jobs.engine.enqueue import MAX_KEY_LENGTH, firm_in_scope
from jobs.errors import Fault, LockInvalid
from jobs.models import ConcurrencyLock
from jobs.models.lock import JOB_HOLDER
from tenants.models import Firm

# A lock whose holder died stands in the way for as long: who needs it longer renews it.
LONGEST_SECONDS = 7 * 86_400
# SQLite's clock tells no less.
LEAST_SECONDS = 0.001


def acquire_lock(
    key: str,
    ttl_seconds: float,
    *,
    firm: Firm | int | None = None,
    holder_id: str | None = None,
) -> ConcurrencyLock | None:
    """Take the firm's lock `key` for `ttl_seconds`, at most a week; None while it is taken.

    Give it back with `release_lock`, hold it longer with `renew_lock`. Each acquisition has a
    higher `fencing_token`: hand it to whatever can refuse an older one. `firm` as in `enqueue`.

    Raises:
        LockInvalid: an argument is refused; `errors` lists field, code, message.
        MissingTenant: as `enqueue`.
    """
    faults = _name_faults("key", key) + _time_faults(ttl_seconds)
    if holder_id is not None:
        faults += _name_faults("holder_id", holder_id)
        if holder_id.startswith(JOB_HOLDER):
            message = f"must not begin with {JOB_HOLDER}, which names jobs"
            faults.append(Fault("holder_id", "reserved", message))
    if faults:
        raise LockInvalid(faults)
    return user_locks.acquire(firm_in_scope(firm), key, ttl_seconds, holder_id)


def release_lock(lock: ConcurrencyLock) -> bool:
    """Free the lock. False: it expired and somebody else took it, or it is gone."""
    return user_locks.release(lock)


def renew_lock(lock: ConcurrencyLock, ttl_seconds: float) -> bool:
    """Hold the lock for another `ttl_seconds` from now. False: it is no longer held.

    Raises:
        LockInvalid: the time is refused.
    """
    faults = _time_faults(ttl_seconds)
    if faults:
        raise LockInvalid(faults)
    return user_locks.renew(lock, ttl_seconds)


def _name_faults(field: str, name: str) -> list[Fault]:
    if 1 <= len(name) <= MAX_KEY_LENGTH and "\x00" not in name:
        return []
    message = f"must have 1 to {MAX_KEY_LENGTH} characters and no NUL"
    return [Fault(field, "wrong_length", message)]


def _time_faults(ttl_seconds: float) -> list[Fault]:
    # Written so that it refuses what is not a number, too.
    if LEAST_SECONDS <= ttl_seconds <= LONGEST_SECONDS:
        return []
    message = f"must be from {LEAST_SECONDS} to {LONGEST_SECONDS:,} seconds"
    return [Fault("ttl_seconds", "out_of_range", message)]
