"""What operators do to locks."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from jobs.engine import user_locks
from jobs.models import ConcurrencyLock
from jobs.operations.target import id_of
from tenants.audit import Actor, as_actor

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None


def force_release(lock: ConcurrencyLock | UUID | str, reason: str, *, by: By = None) -> None:
    """Free a lock its holder will not free. A running job's lock stays: cancel the job instead.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such lock in sight.
        WrongState: a job in flight holds it.
    """
    user_locks.force_release(id_of(lock), reason, by=as_actor(by))
