"""Stores new jobs, in the caller's transaction when there is one."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.engine import dialects
from jobs.engine.admission import admit
from jobs.engine.dialects import SHORT_LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.insert_sql import insert_sql, rows_sql
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.new_job import NewJob
from jobs.engine.reserve import pass_on, reserve
from jobs.engine.transactions import (
    bypasses_rls,
    fetch,
    in_transaction,
    limit_lock_waits,
    run,
    run_alone,
    run_bypassing,
)
from jobs.engine.wakeup import (
    NOTIFY_AHEAD_SECONDS,
    AnnouncedJob,
    note_notify,
    notify_is_due,
    notify_sql,
    wake,
)

BATCH = 1000
RACE_REPEATS = 20
# Category, firm and lock key.
DispatchGroup = tuple[str, int, str | None]


def insert(jobs: Sequence[NewJob], *, database: BaseDatabaseWrapper | None = None) -> list[UUID]:
    """Store the jobs, all or none, and return for each of them the id of the stored job.

    The id is the job's own, or that of the job that already has its idempotency key: a live job or,
    if the key is kept, any job of the key's period. Jobs with a lock key are stored waiting: call
    `dispatch` after the commit.
    """
    if not jobs:
        return []
    database = database or transaction.get_connection()
    at_once = _insert_joining if database.in_atomic_block else _insert_alone
    if at_once(jobs, database):
        return [job.job_id for job in jobs]
    return in_transaction(lambda: _insert_in_batches(jobs))


def insert_at_once(job: NewJob) -> UUID | None:
    """Store the job in the open transaction, and return the id of the stored job as `insert` does.

    Returns None while another transaction is enqueueing a job with its idempotency key: that one
    may stay open for long.
    """
    if job.idempotency_key is None or connection.vendor != "postgresql":
        return insert([job])[0]
    ((before,),) = fetch("SELECT current_setting('lock_timeout')", [])
    try:
        with transaction.atomic():
            limit_lock_waits(SHORT_LOCK_TIMEOUT_MILLISECONDS)
            (job_id,) = insert([job])
            fetch("SELECT set_config('lock_timeout', %s, true)", [before])
            return job_id
    except DatabaseError as error:
        if not dialects.current().is_lock_timeout(error):
            raise
        return None


def dispatch_groups(jobs: Iterable[NewJob]) -> set[DispatchGroup]:
    """Return what `dispatch` needs to know of the jobs: nearly always one group in each call."""
    return {(job.category, job.firm_id, job.lock_key) for job in jobs}


def dispatch(groups: Collection[DispatchGroup]) -> None:
    """Admit jobs with lock keys and wake workers, after the commit.

    A failure here only delays the jobs: the sweep and polling find them.
    """
    if keys := frozenset((firm_id, lock_key) for _, firm_id, lock_key in groups if lock_key):
        admit(ReleasedCapacity(keys=keys))
    wake({category for category, _, _ in groups})


def dispatch_after_commit(groups: Collection[DispatchGroup]) -> None:
    """Dispatch once the open transaction is committed, or now where none is open."""
    transaction.on_commit(lambda: dispatch(groups), robust=True)


def _insert_joining(jobs: Sequence[NewJob], database: BaseDatabaseWrapper) -> bool:
    """Store the jobs by one statement of the caller's transaction; False if that takes more."""
    keyed = any(job.idempotency_key is not None for job in jobs)
    if keyed or len(jobs) > BATCH or database.vendor != "postgresql" or bypasses_rls():
        return False
    insert_keyless(jobs)
    return True


def _insert_alone(jobs: Sequence[NewJob], database: BaseDatabaseWrapper) -> bool:
    """Store the jobs in one statement that is its own transaction, and notifies workers.

    Returns False if nothing was stored, because it takes more statements: for many jobs, for
    idempotency keys of several jobs or those that are kept, and where a single job's key is taken.
    """
    keyed = any(job.idempotency_key is not None for job in jobs)
    if len(jobs) > BATCH or (keyed and (len(jobs) > 1 or jobs[0].keeps_key)):
        return False
    dialect = dialects.current()
    rows, params = rows_sql(jobs)
    category = _category_to_notify(jobs)
    if category is not None:
        rows, params = f"{notify_sql()}, {rows}", [_announcement(jobs), *params]
    begun = time.monotonic()
    rows = f"{dialect.rls_bypass_sql()}, {rows}"
    single = len(jobs) == 1
    sql = insert_sql(rows, dialect.now_sql(), keyed=keyed, single=single)
    answer = run_alone(sql, params, database=database, fixed=single)
    if category is not None:
        note_notify(category, begun)
    return not keyed or bool(answer.rows)


def _category_to_notify(jobs: Sequence[NewJob]) -> str | None:
    """Return the category whose workers the inserting statement itself notifies.

    None if `dispatch` notifies them: for several categories, and for jobs to be admitted first.
    """
    category = jobs[0].category
    if any(job.category != category or job.lock_key is not None for job in jobs):
        return None
    is_due = notify_is_due(category, ahead=NOTIFY_AHEAD_SECONDS)
    return category if is_due and connection.vendor == "postgresql" else None


def _announcement(jobs: Sequence[NewJob]) -> str:
    """Return the notification's text: a single job that may run at once, else the category."""
    first = jobs[0]
    if len(jobs) > 1 or first.run_at is not None or first.delay > 0:
        return first.category
    return AnnouncedJob(
        first.job_id, first.firm_id, first.priority, first.category, first.job_type
    ).to_text()


def _key(job: NewJob) -> tuple[int, str]:
    return job.firm_id, job.idempotency_key or ""


def _insert_in_batches(jobs: Sequence[NewJob]) -> list[UUID]:
    """Reserve the kept keys, then take the live keys, each in order, so that nobody deadlocks."""
    stands_for: dict[UUID, UUID] = {}
    keyed = any(job.idempotency_key is not None for job in jobs)
    ordered = sorted(jobs, key=_key) if keyed else jobs
    keeping = [job for job in ordered if job.keeps_key]
    for start in range(0, len(keeping), BATCH):
        stands_for |= reserve(keeping[start : start + BATCH])
    reserving = [job for job in keeping if job.job_id not in stands_for]
    unrefused = [job for job in ordered if job.job_id not in stands_for]
    for start in range(0, len(unrefused), BATCH):
        stands_for |= insert_batch(unrefused[start : start + BATCH])
    pass_on([job for job in reserving if stands_for[job.job_id] != job.job_id], stands_for)
    # The job that refused this one may have been refused as well: follow its id once more.
    return [stands_for.get(stands_for[job.job_id], stands_for[job.job_id]) for job in jobs]


def insert_keyless(jobs: Sequence[NewJob]) -> None:
    """Store one batch of jobs without idempotency keys in the transaction; PostgreSQL only."""
    dialect = dialects.current()
    rows, params = rows_sql(jobs)
    rows = f"{dialect.rls_bypass_sql()}, {rows}"
    single = len(jobs) == 1
    sql = insert_sql(rows, dialect.now_sql(), keyed=False, single=single, ends_bypass=True)
    run_bypassing(sql, params)


def insert_batch(jobs: Sequence[NewJob]) -> dict[UUID, UUID]:
    """Store one batch inside `in_transaction`; return, by id, the live job that each now has."""
    if all(job.idempotency_key is None for job in jobs):
        rows, params = rows_sql(jobs)
        single = len(jobs) == 1
        sql = insert_sql(rows, dialects.current().now_sql(), keyed=False, single=single)
        run(sql, params, prepared=True)
        return {job.job_id: job.job_id for job in jobs}
    stands_for: dict[UUID, UUID] = {}
    open_jobs = {job.job_id: job for job in jobs}
    dialect = dialects.current()
    for _ in range(RACE_REPEATS):
        rows, params = rows_sql(list(open_jobs.values()))
        sql = insert_sql(rows, dialect.now_sql(), keyed=True, single=len(open_jobs) == 1)
        stored = {dialect.read_uuid(row[0]) for row in fetch(sql, params, prepared=True)}
        refused = {job_id: job for job_id, job in open_jobs.items() if job_id not in stored}
        stands_for |= {job_id: job_id for job_id in stored} | _live_jobs_with_keys(refused)
        # A job that settled in between has released its key: insert again.
        open_jobs = {job_id: job for job_id, job in refused.items() if job_id not in stands_for}
        if not open_jobs:
            break
    return stands_for


def _live_jobs_with_keys(refused: dict[UUID, NewJob]) -> dict[UUID, UUID]:
    """Return, for each refused job, the id of the live job that has its key."""
    if not refused:
        return {}
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"job_id": Column.UUID, "firm_id": Column.BIGINT, "live_key": Column.TEXT},
        [(job.job_id, job.firm_id, job.idempotency_key) for job in refused.values()],
    )
    found = fetch(
        f"""
        SELECT r.job_id, j.job_id FROM {rows}
        JOIN jobs_jobqueue j ON j.firm_id = r.firm_id AND j.live_key = r.live_key
        """,
        params,
    )
    return {dialect.read_uuid(mine): dialect.read_uuid(theirs) for mine, theirs in found}
