"""The chunks of a deletion of a firm or a user that `deletion` began.

Each chunk is a transaction that deletes some of the rows that are left; after a crash the next
attempt continues with the others. A firm or user who is activated again keeps what is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser

from jobs.engine.delete_owned import (
    CHUNK,
    delete_follow_ups_of_user,
    delete_jobs_of_firm,
    delete_jobs_of_user,
    has_jobs,
    stop_jobs_of_firm,
)
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS
from jobs.engine.lease import JobLease
from jobs.engine.transactions import in_transaction
from jobs.errors import Cancel, Fatal, LeaseLost
from jobs.models.base import FIRST_ID
from tenants.audit import SERVICE, record_operation
from tenants.models import Firm
from tenants.ownership import clear_loose, delete_rows, owned_tables
from tenants.scope import all_firms

# Between chunks, so that others can write: on SQLite nobody else can during a chunk.
PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Step:
    """The result of a chunk: whether all is deleted, else whether it waits for jobs.

    Those are in flight, or another transaction has locked them.
    """

    is_over: bool = False
    waits: bool = False
    # The last id that was read; None at the end of a pass.
    after: UUID | None = None


def deleter_of(firm: Firm, job_id: UUID, lease_token: int) -> JobLease:
    """Return the lease of a job of this firm: every chunk of the deletion checks it.

    Raises:
        Fatal: the firm is not the system firm. Its developers may enqueue any type, and a deletion
            reaches beyond their firm.
    """
    if not firm.is_system:
        raise Fatal("only a job of the system firm may delete a firm or a user")
    return JobLease(job_id, firm.pk, lease_token)


def firm_steps(firm_id: int, deleter: JobLease) -> Iterator[Step]:
    """Yield each step of an attempt to delete a firm, until all is deleted.

    The first one asks the jobs in flight to end; to find them takes as long as to delete a chunk.

    Raises:
        LeaseLost, Cancel, LockTimeout: as `firm_step`.
    """
    step = firm_step(firm_id, deleter)
    while not step.is_over:
        yield step
        step = firm_step(firm_id, deleter, stops_jobs=False)


def firm_step(firm_id: int, deleter: JobLease, *, stops_jobs: bool = True) -> Step:
    """Delete a chunk of what the firm owns, in a transaction of its own.

    With `stops_jobs`, ask the firm's jobs in flight to end.

    Raises:
        LeaseLost: the job no longer carries the lease token; nothing was done.
        Cancel: the firm was activated again; nothing was done.
        LockTimeout: another transaction has locked a row that is no job; nothing was done.
    """

    def step() -> Step:
        with all_firms("delete a firm"):
            _require_lease(deleter)
            firm = Firm.objects.select_for_update().filter(pk=firm_id).first()
            if firm is None:
                return Step(is_over=True)
            if firm.active:
                raise Cancel("the firm was activated again: the deletion stopped")
            if stops_jobs:
                stop_jobs_of_firm(firm_id)
            if delete_jobs_of_firm(firm_id):
                return Step()
            if has_jobs(firm_id):
                return Step(waits=True)
            tables = owned_tables()
            # Twice: a fold of counters for which the first pass waited may have put rows into
            # tables that this pass had emptied before.
            for work in (clear_loose, delete_rows, delete_rows):
                if any(work(table, firm_id, CHUNK) for table in tables):
                    return Step()
            firm.delete()
            _record_end("firm", firm_id, deleter)
            return Step(is_over=True)

    return in_transaction(step, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)


def user_step(user_id: str, after: UUID, deleter: JobLease) -> Step:
    """Delete the user's jobs among the next ones after this id, and ask those in flight to end.

    Raises:
        LeaseLost, LockTimeout: as `firm_step`.
        Cancel: the user may sign in again; nothing was done.
    """

    def step() -> Step:
        with all_firms("delete a user's jobs"):
            _require_lease(deleter)
            _get_inactive_user(user_id)
            if after == FIRST_ID:
                delete_follow_ups_of_user(user_id)
            last, left = delete_jobs_of_user(user_id, after)
            return Step(after=last, waits=left > 0)

    return in_transaction(step, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)


def delete_jobs(user_id: str, deleter: JobLease, between: Callable[[], None]) -> bool:
    """Delete the user's jobs in one pass over all jobs; return whether some are left.

    Those are in flight, or another transaction has locked them.

    `between` is called after each chunk.

    Raises:
        LeaseLost, LockTimeout: as `firm_step`.
        Cancel: as `user_step`.
    """
    after: UUID | None = FIRST_ID
    waits = False
    while after is not None:
        step = user_step(user_id, after, deleter)
        after, waits = step.after, waits or step.waits
        between()
        time.sleep(PAUSE_SECONDS)
    return waits


def end_user(user_id: str, deleter: JobLease) -> None:
    """Delete the user, whose jobs are gone, with memberships, keys and grants.

    Raises:
        LeaseLost, LockTimeout: as `firm_step`.
        Cancel: as `user_step`.
    """

    def end() -> None:
        with all_firms("delete a user"):
            _require_lease(deleter)
            user = _get_inactive_user(user_id)
            if user is not None:
                user.delete()
                _record_end("user", user_id, deleter)

    in_transaction(end, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)


def _require_lease(deleter: JobLease) -> None:
    if not deleter.is_held():
        raise LeaseLost(
            f"job {deleter.job_id} no longer belongs to this attempt: nothing was deleted"
        )


def _get_inactive_user(user_id: str) -> AbstractBaseUser | None:
    """Return the user, locked; None if the project deleted them already."""
    users = get_user_model()._base_manager.select_for_update(no_key=True)
    user: AbstractBaseUser | None = users.filter(pk=user_id).first()
    if user is not None and user.is_active:
        raise Cancel("the user may sign in again: the deletion stopped")
    return user


def _record_end(noun: str, key: Any, deleter: JobLease) -> None:
    record_operation(
        SERVICE,
        f"{noun}.deleted",
        firm_id=deleter.firm_id,
        target=(noun, key),
        after={"job_id": str(deleter.job_id)},
    )
