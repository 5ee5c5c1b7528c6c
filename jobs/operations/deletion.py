"""Begins the deletion of a firm or a user with everything they own.

A job of the system firm deletes them in small chunks (`deletion_steps`). The audit log stays.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser

from jobs.engine.enqueue import enqueue
from jobs.errors import Fatal, Fault, UnknownJob, WrongState
from jobs.models import JobQueue
from jobs.operations.operation import By, operation, require_reason
from jobs.registry import find
from jobs.states import Priority, Status
from tenants.audit import as_actor, record_operation
from tenants.models import Firm
from tenants.scope import all_firms
from tenants.users import email_field, find_user, sign_in_field

FIRM_JOB_TYPE = "delete_firm"
USER_JOB_TYPE = "delete_user"
# An app that knows a firm's data declares this type; the queue itself cannot export a firm.
EXPORT_JOB_TYPE = "firm_export"
# The fields of a deleted user that the audit log keeps.
FACTS = ("is_active", "is_staff", "is_superuser")


@operation
def delete_firm(firm: Firm, reason: str, *, export_first: bool = False, by: By = None) -> JobQueue:
    """Begin to delete a firm; return the job that does it.

    With `export_first` the firm is exported before, for platform staff; if the export fails,
    nothing is deleted. The firm is deactivated at once: none of its jobs starts, its members have
    no access. Jobs in flight are asked to end.

    Raises:
        ReasonMissing: no reason given.
        WrongState: it is the system firm; or it is to be exported first, but no app exports firms
            or an earlier deletion, without an export, is not over.
    """
    require_reason(reason)
    if firm.is_system:
        raise WrongState("the system firm cannot be deleted: its jobs maintain the queue")
    Firm.objects.filter(pk=firm.pk).update(active=False)
    facts = {"name": firm.name, "slug": firm.slug}
    export_id = _export(firm) if export_first else None
    job = _begin(FIRM_JOB_TYPE, {"firm_id": firm.pk}, facts, reason, by, export_job_id=export_id)
    if export_id is not None and job.payload.get("export_job_id") != str(export_id):
        raise WrongState(
            f"job {job.pk} already deletes the firm, without an export: cancel that job first"
        )
    return job


def by_hand_faults(job_type: str) -> list[Fault]:
    """Return why nobody enqueues, schedules or edits a job of this type by hand; [] if they may."""
    if job_type not in (FIRM_JOB_TYPE, USER_JOB_TYPE):
        return []
    message = f"is a deletion: start it in the admin or with manage.py {job_type}, not by hand"
    return [Fault("job_type", "not_possible", message)]


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
        raise WrongState("nobody can delete their own account")
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
            # Audited in the system firm, which is still there when this firm is deleted.
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
        Fatal: the export failed, was canceled, or is gone.
    """
    with all_firms("a deletion waits for an export"):
        job = JobQueue.objects.filter(pk=export_job_id).first()
    if job is None or job.status in (Status.DLQ, Status.FAILED, Status.CANCELED):
        raise Fatal(
            "the export failed, so nothing was deleted: retry the export, then the deletion"
        )
    return bool(job.status == Status.COMPLETED)


def user_by_key(key: str) -> AbstractBaseUser:
    """Return the user with this name or address.

    Raises:
        UnknownJob: there is none.
        AmbiguousUser: there are several.
    """
    user: AbstractBaseUser | None = find_user(key)
    if user is None:
        raise UnknownJob(f"no user is named {key!r}")
    return user
