"""Deletes a firm or a user with everything of theirs: a job of the system firm, in small chunks.

Each chunk is a transaction, and the rows themselves say how far the deletion is: after a crash the
next attempt goes on. The audit log stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser

from jobs.engine.delete_follow_ups import delete_follow_ups_of_user
from jobs.engine.delete_owned import (
    CHUNK,
    FIRST_ID,
    delete_jobs_of_firm,
    delete_jobs_of_user,
    stop_jobs_of_firm,
)
from jobs.engine.enqueue import enqueue
from jobs.engine.transactions import in_transaction
from jobs.errors import Fatal, LeaseLost, UnknownJob, WrongState
from jobs.models import JobQueue
from jobs.operations.operation import By, operation, require_reason
from jobs.registry import find
from jobs.states import Priority, Status
from tenants.audit import SERVICE, as_actor, record_operation
from tenants.models import Firm
from tenants.ownership import clear_loose, delete_rows, owned_tables
from tenants.scope import all_firms
from tenants.users import email_field, find_users, sign_in_field

# Others write meanwhile: on SQLite nobody else can during a chunk.
PAUSE_SECONDS = 0.01
FIRM_JOB_TYPE = "delete_firm"
USER_JOB_TYPE = "delete_user"
# Of the app that knows what a firm's data are; the queue alone exports nothing.
EXPORT_JOB_TYPE = "firm_export"
# What the audit log keeps of a user.
FACTS = ("is_active", "is_staff", "is_superuser")


@dataclass(frozen=True)
class Deleter:
    """The job that deletes: every chunk checks its lease token."""

    job_id: UUID
    firm_id: int
    lease_token: int


@dataclass(frozen=True)
class Step:
    """What a chunk leaves: whether all is done, else whether it waits for jobs in flight."""

    is_over: bool = False
    waits: bool = False
    # The last id that was read; None at the end of a pass.
    after: UUID | None = None


@operation
def delete_firm(firm: Firm, reason: str, *, export_first: bool = False, by: By = None) -> JobQueue:
    """Begin to delete a firm; return the job that does it.

    `export_first` has all of it exported before, for platform staff; without the export nothing
    is deleted. The firm is deactivated at once: none of its jobs starts, its members are kept out.
    Jobs in flight are asked to end.

    Raises:
        ReasonMissing: no reason given.
        WrongState: it is the system firm, nothing exports firms, or an earlier deletion goes on without.
    """
    require_reason(reason)
    if firm.is_system:
        raise WrongState("the system firm cannot be deleted: its jobs keep the queue in order")
    Firm.objects.filter(pk=firm.pk).update(active=False)
    facts = {"name": firm.name, "slug": firm.slug}
    export_id = _export(firm) if export_first else None
    job = _begin(FIRM_JOB_TYPE, {"firm_id": firm.pk}, facts, reason, by, export_job_id=export_id)
    if export_id is not None and job.payload.get("export_job_id") != str(export_id):
        raise WrongState(f"job {job.pk} deletes it already, without an export: cancel that first")
    return job


def exports_firms() -> bool:
    """Say whether an installed app exports firms."""
    return find(EXPORT_JOB_TYPE) is not None


def _export(firm: Firm) -> UUID:
    if not exports_firms():
        raise WrongState("no app of this installation exports firms")
    with all_firms("the export of a firm to be deleted is the system firm's"):
        result = enqueue(
            EXPORT_JOB_TYPE,
            {"firm_id": firm.pk},
            firm=Firm.objects.system(),
            priority=Priority.HIGH,
            idempotency_key=f"{EXPORT_JOB_TYPE}:{firm.pk}",
        )
        return result.job_id


@operation
def delete_user(user: AbstractBaseUser, reason: str, *, by: By = None) -> JobQueue:
    """Begin to delete a user with the jobs on their behalf; return the job that does it.

    The user cannot sign in any more. Memberships, keys and grants go; what others did or own stays.

    Raises:
        ReasonMissing: no reason given.
        WrongState: the user asks for their own deletion.
    """
    require_reason(reason)
    if as_actor(by).user_id == user.pk:
        raise WrongState("nobody deletes their own account")
    names = (sign_in_field(), email_field() or "", *FACTS)
    facts = {name: getattr(user, name) for name in names if hasattr(user, name)}
    users: Any = type(user)._default_manager
    users.filter(pk=user.pk).update(is_active=False)
    return _begin(USER_JOB_TYPE, {"user_id": str(user.pk)}, facts, reason, by)


def take_jobs_along(instance: Any, **_: Any) -> None:
    """Begin to delete the jobs on behalf of a user whom the project itself deleted."""
    enqueue(
        USER_JOB_TYPE,
        {"user_id": str(instance.pk)},
        firm=Firm.objects.system(),
        priority=Priority.HIGH,
        idempotency_key=f"{USER_JOB_TYPE}:{instance.pk}",
    )


def _begin(
    job_type: str,
    payload: dict[str, Any],
    facts: dict[str, Any],
    reason: str,
    by: By,
    **options: Any,
) -> JobQueue:
    system = Firm.objects.system()
    ((name, key),) = payload.items()
    noun = name.removesuffix("_id")
    with all_firms("a deletion is the system firm's"):
        result = enqueue(
            job_type,
            {**payload, **options},
            firm=system,
            priority=Priority.HIGH,
            idempotency_key=f"{job_type}:{key}",
        )
        if result.created:
            # The system firm's log outlives the firm's own.
            record_operation(
                as_actor(by),
                f"{noun}.delete",
                firm_id=system.pk,
                target=(noun, key),
                reason=reason,
                before=facts,
                after={"job_id": str(result.job_id)},
            )
        return result.job


def is_exported(export_job_id: UUID) -> bool:
    """Say whether the export that a deletion waits for is complete.

    Raises:
        Fatal: it failed, was canceled, or is gone.
    """
    with all_firms("a deletion waits for an export"):
        job = JobQueue.objects.filter(pk=export_job_id).first()
    if job is None or job.status in (Status.DLQ, Status.FAILED, Status.CANCELED):
        raise Fatal("the export failed: nothing was deleted; retry the export, then the deletion")
    return bool(job.status == Status.COMPLETED)


def firm_step(firm_id: int, deleter: Deleter) -> Step:
    """Delete a chunk of what the firm owns, in a transaction of its own.

    Raises:
        LeaseLost: the job no longer carries the lease token; nothing was done.
    """

    def step() -> Step:
        with all_firms("delete a firm"):
            _require_lease(deleter)
            firm = Firm.objects.select_for_update().filter(pk=firm_id).first()
            if firm is None:
                return Step(is_over=True)
            in_flight = stop_jobs_of_firm(firm_id)
            if delete_jobs_of_firm(firm_id):
                return Step()
            if in_flight:
                return Step(waits=True)
            tables = owned_tables()
            for work in (clear_loose, delete_rows):
                if any(work(table, firm_id, CHUNK) for table in tables):
                    return Step()
            firm.delete()
            _record_end("firm", firm_id, deleter)
            return Step(is_over=True)

    return in_transaction(step)


def user_step(user_id: str, after: UUID, deleter: Deleter) -> Step:
    """Delete the user's jobs among the next ones after this id, and ask those in flight to end.

    Raises:
        LeaseLost: as `firm_step`.
    """

    def step() -> Step:
        with all_firms("delete a user's jobs"):
            _require_lease(deleter)
            if after == FIRST_ID:
                delete_follow_ups_of_user(user_id)
            last, in_flight = delete_jobs_of_user(user_id, after)
            return Step(after=last, waits=in_flight > 0)

    return in_transaction(step)


def delete_jobs(user_id: str, deleter: Deleter, between: Callable[[], None]) -> bool:
    """Delete the user's jobs in one pass over all jobs; return whether some are in flight.

    `between` is called after each chunk.

    Raises:
        LeaseLost: as `firm_step`.
    """
    after: UUID | None = FIRST_ID
    waits = False
    while after is not None:
        step = user_step(user_id, after, deleter)
        after, waits = step.after, waits or step.waits
        between()
        time.sleep(PAUSE_SECONDS)
    return waits


def end_user(user_id: str, deleter: Deleter) -> None:
    """Delete the user, whose jobs are gone, with memberships, keys and grants.

    Raises:
        LeaseLost: as `firm_step`.
    """

    def end() -> None:
        with all_firms("delete a user"):
            _require_lease(deleter)
            user = get_user_model()._base_manager.filter(pk=user_id).first()
            if user is not None:
                user.delete()
                _record_end("user", user_id, deleter)

    in_transaction(end)


def _require_lease(deleter: Deleter) -> None:
    held = JobQueue.objects.filter(
        pk=deleter.job_id, firm_id=deleter.firm_id, lease_token=deleter.lease_token
    )
    if not held.select_for_update(no_key=True).exists():
        raise LeaseLost(f"job {deleter.job_id} is no longer this attempt's: nothing was deleted")


def _record_end(noun: str, key: Any, deleter: Deleter) -> None:
    record_operation(
        SERVICE,
        f"{noun}.deleted",
        firm_id=deleter.firm_id,
        target=(noun, key),
        after={"job_id": str(deleter.job_id)},
    )


def user_by_key(key: str) -> AbstractBaseUser:
    """Return the user with this address or name.

    Raises:
        UnknownJob: there is none.
    """
    user: AbstractBaseUser | None = find_users(key).first()
    if user is None and (field := email_field()) is not None:
        user = get_user_model()._default_manager.filter(**{f"{field}__iexact": key}).first()
    if user is None:
        raise UnknownJob(f"no user is named {key!r}")
    return user
