"""Locks for user code: at most one holder of a key in a firm, for a limited time."""

from __future__ import annotations

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.enqueue import firm_in_scope
from jobs.engine.job_arguments import key_faults, seconds_faults
from jobs.engine.locks import take_slot
from jobs.engine.transactions import in_transaction, run
from jobs.errors import Fault, LockInvalid
from jobs.models import ConcurrencyLock
from jobs.models.limits import JOB_HOLDER
from tenants.models import Firm

# If a holder dies, its lock stays until it expires; code that needs it longer renews it.
MAX_TTL_SECONDS = 7 * 86_400
# The resolution of SQLite's clock.
MIN_TTL_SECONDS = 0.001


def acquire_lock(
    key: str,
    ttl_seconds: float,
    *,
    firm: Firm | int | None = None,
    holder_id: str | None = None,
) -> ConcurrencyLock | None:
    """Take the firm's lock `key` for `ttl_seconds`, at most a week; None while it is taken.

    Give it back with `release_lock`, extend it with `renew_lock`. Each acquisition, also of a lock
    that has expired, has a higher `fencing_token`: pass it to whatever can refuse an older one.
    `firm` as in `enqueue`.

    Raises:
        LockInvalid: an argument is refused; `errors` lists field, code, message.
        MissingTenant: as `enqueue`.
    """
    faults = key_faults("key", key) + _ttl_faults(ttl_seconds)
    if holder_id is not None:
        faults += key_faults("holder_id", holder_id)
        if str(holder_id).startswith(JOB_HOLDER):
            message = f"must not begin with {JOB_HOLDER}: that prefix is for jobs"
            faults.append(Fault("holder_id", "reserved", message))
    if faults:
        raise LockInvalid(faults)
    firm_id = firm_in_scope(firm, "acquire_lock")
    lock_id = uuid7()
    holder = holder_id or f"user:{lock_id}"

    def acquire() -> ConcurrencyLock | None:
        if not take_slot(lock_id, firm_id, key, holder, ttl_seconds):
            return None
        locks = ConcurrencyLock.objects.unscoped("the lock just taken")
        lock: ConcurrencyLock = locks.get(pk=lock_id)
        return lock

    return in_transaction(acquire)


def release_lock(lock: ConcurrencyLock) -> bool:
    """Free the lock; return False if it expired and somebody else took it, or if it is gone.

    Raises:
        LockInvalid: `lock` is no lock.
    """
    held, params = _held_sql(lock)
    return in_transaction(lambda: run(f"DELETE FROM jobs_concurrencylock WHERE {held}", params)) > 0


def renew_lock(lock: ConcurrencyLock, ttl_seconds: float) -> bool:
    """Extend the lock to `ttl_seconds` from now; return False if it is no longer held.

    Raises:
        LockInvalid: the time is refused, or it is no lock.
    """
    faults = _ttl_faults(ttl_seconds)
    if faults:
        raise LockInvalid(faults)
    dialect = dialects.current()
    now = dialect.now_sql()
    held, params = _held_sql(lock)
    renew_sql = (
        f"UPDATE jobs_concurrencylock SET expires_at = {dialect.after_sql(now, '%s')}"
        f" WHERE {held} AND expires_at >= {now}"
    )
    return in_transaction(lambda: run(renew_sql, [ttl_seconds, *params])) > 0


def _held_sql(lock: object) -> tuple[str, list[object]]:
    """Return the condition, and its parameters, that nobody has taken the lock since.

    Raises:
        LockInvalid: `lock` is no lock; `acquire_lock` returns None while another holds the key.
    """
    if not isinstance(lock, ConcurrencyLock):
        message = f"must be what acquire_lock returned, not {type(lock).__name__}"
        raise LockInvalid([Fault("lock", "wrong_type", message)])
    lock_id = dialects.current().value(Column.UUID, lock.pk)
    return (
        "id = %s AND holder_id = %s AND fencing_token = %s",
        [lock_id, lock.holder_id, lock.fencing_token],
    )


def _ttl_faults(ttl_seconds: object) -> list[Fault]:
    return seconds_faults("ttl_seconds", ttl_seconds, MIN_TTL_SECONDS, MAX_TTL_SECONDS)
