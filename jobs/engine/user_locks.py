"""Locks that user code takes for a time: acquire, renew, release, and an operator's force."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.lookup import in_sight
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.errors import ReasonMissing, WrongState
from jobs.models import ConcurrencyLock
from tenants.audit import SERVICE, Actor, record_operation


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


def force_release(lock_id: UUID, reason: str, *, by: Actor = SERVICE) -> None:
    """Free a lock its holder will not free. A running job's lock stays: cancel the job instead.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such lock in sight.
        WrongState: a job in flight holds it.
    """
    if not reason.strip():
        raise ReasonMissing
    in_transaction(lambda: _force_release(lock_id, reason, by), savepoint=True)


def _force_release(lock_id: UUID, reason: str, by: Actor) -> None:
    lock = in_sight(ConcurrencyLock, lock_id)
    dialect = dialects.current()
    freed = run(
        f"""
        DELETE FROM jobs_concurrencylock
        WHERE id = %s AND NOT (holder_id LIKE 'job:%%' AND EXISTS (
            SELECT 1 FROM jobs_jobqueue j WHERE j.ready
              AND j.job_id = {dialect.job_of_holder_sql("jobs_concurrencylock.holder_id")}))
        """,
        [dialect.value(Column.UUID, lock.pk)],
    )
    if freed != 1:
        raise WrongState(f"lock {lock.lock_key} belongs to a live job: cancel the job instead")
    record_operation(
        by,
        "lock.force_release",
        firm_id=lock.firm_id,
        target=("lock", lock.pk),
        reason=reason,
        before={"lock_key": lock.lock_key, "holder_id": lock.holder_id},
    )
