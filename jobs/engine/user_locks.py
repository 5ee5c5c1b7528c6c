"""Locks that user code takes for a time: acquire, renew, release."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.models import ConcurrencyLock


def acquire(
    firm_id: int, key: str, ttl_seconds: float, holder_id: str | None
) -> ConcurrencyLock | None:
    """Take the lock for `ttl_seconds`; None while somebody else holds it.

    An expired lock is taken over, with a higher fencing token.
    """
    lock_id = uuid7()
    holder = holder_id or f"user:{lock_id}"
    return in_transaction(lambda: _acquire(lock_id, firm_id, key, ttl_seconds, holder))


def _acquire(
    lock_id: UUID, firm_id: int, key: str, ttl_seconds: float, holder: str
) -> ConcurrencyLock | None:
    if not _take(lock_id, firm_id, key, ttl_seconds, holder):
        return None
    lock: ConcurrencyLock = ConcurrencyLock.objects.unscoped("the lock just taken").get(pk=lock_id)
    return lock


def _take(lock_id: UUID, firm_id: int, key: str, ttl_seconds: float, holder: str) -> bool:
    dialect = dialects.current()
    now = dialect.now_sql()
    token = dialect.draw_token_sql()
    return bool(
        fetch(
            f"""
            INSERT INTO jobs_concurrencylock
                (id, firm_id, lock_key, slot, holder_id, acquired_at, expires_at, fencing_token)
            SELECT %s, %s, %s, 0, %s, {now}, {dialect.after_sql(now, "%s")}, {token} WHERE true
            ON CONFLICT (firm_id, lock_key, slot) DO UPDATE
            SET id = excluded.id, holder_id = excluded.holder_id,
                acquired_at = excluded.acquired_at, expires_at = excluded.expires_at,
                fencing_token = excluded.fencing_token
            WHERE jobs_concurrencylock.expires_at < {now}
            RETURNING id
            """,
            [dialect.value(Column.UUID, lock_id), firm_id, key, holder, ttl_seconds],
        )
    )


def release(lock: ConcurrencyLock) -> bool:
    """Free the lock. False: it expired and somebody else holds it, or it is gone."""
    dialect = dialects.current()
    return in_transaction(
        lambda: (
            run(
                "DELETE FROM jobs_concurrencylock"
                " WHERE id = %s AND holder_id = %s AND fencing_token = %s",
                [dialect.value(Column.UUID, lock.pk), lock.holder_id, lock.fencing_token],
            )
            == 1
        )
    )


def renew(lock: ConcurrencyLock, ttl_seconds: float) -> bool:
    """Hold the lock for another `ttl_seconds` from now. False: it is no longer held."""
    dialect = dialects.current()
    now = dialect.now_sql()
    return in_transaction(
        lambda: (
            run(
                f"UPDATE jobs_concurrencylock SET expires_at = {dialect.after_sql(now, '%s')}"
                f" WHERE id = %s AND holder_id = %s AND fencing_token = %s AND expires_at >= {now}",
                [
                    ttl_seconds,
                    dialect.value(Column.UUID, lock.pk),
                    lock.holder_id,
                    lock.fencing_token,
                ],
            )
            == 1
        )
    )
