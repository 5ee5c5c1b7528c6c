"""Deletes the jobs of a firm or a user with their history, a chunk in each transaction.

And the user's jobs that are not enqueued yet: those of fan-ins, of chains and of batch events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.fan_in import delete_fan_ins
from jobs.engine.locks import free_job_locks
from jobs.engine.transactions import fetch, run
from jobs.models import Batch, FanIn, FanInMember, JobQueue
from jobs.states import IN_FLIGHT

CHUNK = 500
# How many jobs are read at a time to find a user's.
WALK = 5_000

_IN_FLIGHT = dialects.statuses_sql(IN_FLIGHT)
# The tables that hold a job's history, with the column that names the job.
_HISTORY = (
    ("jobs_attempt", "job_id"),
    ("jobs_jobstep", "job_id"),
    ("jobs_attemptlog", "job_id"),
    ("jobs_deadletterqueue", "original_job_id"),
)


def delete_jobs_of_firm(firm_id: int) -> int:
    """Delete a chunk of the firm's jobs; return how many.

    Those in flight stay, and those that another transaction has locked.
    """
    rows = fetch(
        f"""
        SELECT job_id FROM jobs_jobqueue WHERE firm_id = %s AND status NOT IN ({_IN_FLIGHT})
        ORDER BY job_id LIMIT {CHUNK} {dialects.current().skip_locked}
        """,
        [firm_id],
    )
    read_uuid = dialects.current().read_uuid
    return delete_jobs([(read_uuid(job_id), firm_id) for (job_id,) in rows])


def stop_jobs_of_firm(firm_id: int) -> None:
    """Ask the firm's jobs in flight to end, but for those that another transaction has locked."""
    _stop("firm_id = %s", [firm_id])


def has_jobs(firm_id: int) -> bool:
    """Say whether the firm has any job."""
    return bool(fetch("SELECT 1 FROM jobs_jobqueue WHERE firm_id = %s LIMIT 1", [firm_id]))


def delete_jobs_of_user(user_id: Any, after: UUID) -> tuple[UUID | None, int]:
    """Delete the user's jobs among the next WALK after this id; ask those in flight to end.

    Returns the id to continue after (None at the end), and how many of the user's stay: those in
    flight, and those that another transaction has locked.
    """
    dialect = dialects.current()
    user = JobQueue._meta.get_field("user").get_db_prep_value(user_id, connection)
    ours = f"""
        SELECT job_id, user_id, firm_id, status FROM jobs_jobqueue WHERE job_id > %s
        ORDER BY job_id LIMIT {WALK}
    """
    start = dialect.value(Column.UUID, after)
    ends = fetch(
        f"SELECT job_id FROM jobs_jobqueue WHERE job_id > %s ORDER BY job_id LIMIT 1 OFFSET {WALK - 1}",
        [start],
    )
    rows = fetch(
        f"SELECT j.job_id, j.firm_id, j.status FROM ({ours}) AS j WHERE j.user_id = %s",
        [start, user],
    )
    over = []
    for job_id, firm_id, status in rows:
        if status in IN_FLIGHT:
            _stop("job_id = %s", [job_id])
        else:
            over.append((dialect.read_uuid(job_id), firm_id))
    deleted = delete_jobs(over)
    return (dialect.read_uuid(ends[0][0]) if ends else None), len(rows) - deleted


def lock_free_jobs(job_ids: Sequence[UUID]) -> Sequence[UUID]:
    """Lock those of the jobs that no other transaction has locked, and return their ids.

    A caller may keep its transaction open: a deletion that waited for it would keep all other jobs
    of the chunk locked, and the two could deadlock.
    """
    dialect = dialects.current()
    if not dialect.skip_locked or not job_ids:
        return job_ids
    ids, params = dialects.ids_sql(job_ids)
    locked = fetch(
        f"SELECT job_id FROM jobs_jobqueue WHERE job_id IN (SELECT r.id FROM {ids})"
        f" {dialect.skip_locked}",
        params,
    )
    return [dialect.read_uuid(job_id) for (job_id,) in locked]


def _stop(where: str, params: list[Any]) -> None:
    # Jobs in flight are ready: the indexes of ready jobs spare the statement all that are over.
    dialect = dialects.current()
    now = dialect.now_sql()
    run(
        f"""
        UPDATE jobs_jobqueue SET cancel_requested_at = {now}, updated_at = {now}
        WHERE job_id IN (
            SELECT job_id FROM jobs_jobqueue
            WHERE ready AND {where} AND status IN ({_IN_FLIGHT}) AND cancel_requested_at IS NULL
            {dialect.skip_locked}
        )
        """,
        params,
    )


def delete_jobs(jobs: Sequence[tuple[UUID, int]]) -> int:
    """Delete these jobs (id, firm id) with their history; return how many were deleted.

    Those in flight stay, and those that another transaction has locked. Must run in a transaction
    with every firm in scope.
    """
    free = lock_free_jobs([job_id for job_id, _ in jobs])
    if not free:
        return 0
    dialect = dialects.current()
    rows, params = dialects.ids_sql(free)
    gone = fetch(
        f"""
        DELETE FROM jobs_jobqueue WHERE job_id IN (SELECT r.id FROM {rows})
            AND status NOT IN ({_IN_FLIGHT})
        RETURNING job_id, firm_id
        """,
        params,
    )
    ids = [(dialect.read_uuid(job_id), firm_id) for job_id, firm_id in gone]
    delete_history(ids)
    free_job_locks([job_id for job_id, _ in ids])
    return len(ids)


def delete_history(jobs: Sequence[tuple[UUID, int]]) -> None:
    """Delete the history of these deleted jobs, given by id and firm."""
    ids, params = dialects.ids_sql(job_id for job_id, _ in jobs)
    firm_ids = sorted({firm_id for _, firm_id in jobs})
    marks = ", ".join(["%s"] * len(firm_ids))
    for name, column in _HISTORY if jobs else ():
        # No pairs of columns, because SQLite looks up pairs in no index of one column.
        run(
            f"DELETE FROM {name} WHERE firm_id IN ({marks}) AND {column} IN (SELECT r.id FROM {ids})",
            [*firm_ids, *params],
        )
    delete_fan_ins(jobs)


def delete_follow_ups_of_user(user_id: Any) -> None:
    """Delete the user's jobs that are not enqueued yet; a chain ends before the first of them.

    Must run in a transaction with every firm in scope, before the search for the user's stored
    jobs, so that this finds a job that is enqueued in between.
    """
    theirs = FanIn.objects.filter(user_id=user_id)
    FanInMember.objects.filter(fan_in_id__in=theirs.values("pk")).delete()
    theirs.delete()
    for fan_in in _mentioning(FanIn.objects.filter(fired_at=None), "rest", user_id):
        first = [_is_of(job, user_id) for job in fan_in.rest].index(True)
        FanIn.objects.filter(pk=fan_in.pk, firm_id=fan_in.firm_id).update(rest=fan_in.rest[:first])
    for batch in _mentioning(Batch.objects.all(), "callbacks", user_id):
        kept = {event: job for event, job in batch.callbacks.items() if not _is_of(job, user_id)}
        Batch.objects.filter(pk=batch.pk, firm_id=batch.firm_id).update(callbacks=kept)


def _mentioning(rows: QuerySet[Any], column: str, user_id: Any) -> list[Any]:
    """Return and lock the rows that keep a job of the user in this column."""
    kept = f'"user_id": "{user_id}"'
    found = rows.alias(kept=Cast(F(column), TextField())).filter(kept__contains=kept)
    jobs = found.only("firm", column).order_by("pk").select_for_update(of=("self",), no_key=True)
    return [row for row in jobs if any(_is_of(job, user_id) for job in _jobs(getattr(row, column)))]


def _jobs(kept: Any) -> list[dict[str, Any]]:
    return list(kept.values()) if isinstance(kept, dict) else kept


def _is_of(job: dict[str, Any], user_id: Any) -> bool:
    return bool(job["user_id"] == str(user_id))
