"""What operators do to circuit breakers: close one, open one by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from jobs import registry
from jobs.engine import overrides
from jobs.engine.limits import Holds
from jobs.errors import Fault, LimitInvalid
from jobs.models import CircuitBreaker
from jobs.operations.target import id_of
from tenants.audit import Actor, as_actor
from tenants.models import Firm

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None


def close_breaker(breaker: CircuitBreaker | UUID | str, reason: str, *, by: By = None) -> None:
    """Let the jobs run that a circuit breaker holds back; it counts anew from here.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such breaker in sight.
        WrongState: it is closed.
    """
    overrides.close(id_of(breaker), reason, by=as_actor(by))


def open_breaker(job_type: str, firm: Firm | int, reason: str, *, by: By = None) -> None:
    """Hold a type's jobs of one firm back as if they had failed; one is tried after the cooldown.

    To stop them until further notice, `jobs.operations.limits.pause` them.

    Raises:
        ReasonMissing: no reason given.
        LimitInvalid: the type is unknown or declares no breaker.
        WrongState: it is not closed.
        TenantMismatch: the firm is out of scope.
    """
    declared = registry.find(job_type)
    if declared is None or declared.breaker is None:
        fault = Fault("job_type", "no_breaker", f"{job_type!r} declares no circuit breaker")
        raise LimitInvalid([fault])
    firm_id = Holds(firm if isinstance(firm, int) else firm.pk).owner()
    overrides.open_by_hand(firm_id, job_type, declared.breaker, reason, by=as_actor(by))
