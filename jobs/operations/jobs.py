"""What operators do to jobs and dead letters, through whichever door.

Every act is written to the audit log. `by` is a user, an `Actor` (a user and a door), or None for
the service itself. Inside a tenant scope only rows in sight are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from jobs.engine import cancel as canceling
from jobs.engine import retry as retrying
from jobs.engine.lookup import read_job
from jobs.models import JobQueue
from jobs.operations.target import id_of
from tenants.audit import Actor, as_actor

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None


def retry(job: JobQueue | UUID | str, *, by: By = None, reason: str = "") -> JobQueue:
    """Send a dead-lettered, failed or canceled job round again; its attempts start over.

    An open dead letter of the job closes as reprocessed. Returns the job as it is now.

    Raises:
        UnknownJob: no such job in sight.
        WrongState: the job is in another status (KeyHeld: a live job holds its idempotency key).
    """
    job_id = id_of(job)
    retrying.retry(job_id, by=as_actor(by), reason=reason)
    return read_job(job_id)


def cancel(job: JobQueue | UUID | str, *, by: By = None, reason: str = "") -> JobQueue:
    """Cancel a pending job at once; ask a running one to stop at its next checkpoint.

    Returns the job as it is now: `canceled`, or running with `cancel_requested_at` set.

    Raises:
        UnknownJob: no such job in sight.
        WrongState: the job is over.
    """
    job_id = id_of(job)
    canceling.cancel(job_id, by=as_actor(by), reason=reason)
    return read_job(job_id)
