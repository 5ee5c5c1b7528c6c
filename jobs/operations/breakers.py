"""Operations on circuit breakers: close one, open one by hand."""

from __future__ import annotations

from uuid import UUID

from jobs import registry
from jobs.breaker import Breaker, Circuit
from jobs.engine.breakers import lock_circuit, store_circuit
from jobs.errors import Fault, LimitInvalid, WrongState
from jobs.models import CircuitBreaker
from jobs.operations.limits import owner_id
from jobs.operations.operation import By, audit, get_for_update, operation, require_reason
from jobs.states import BreakerState
from tenants.models import Firm


@operation
def close_breaker(breaker: CircuitBreaker | UUID | str, reason: str, *, by: By = None) -> None:
    """Let the jobs run that a circuit breaker holds back; its counts start again at zero.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such breaker in scope.
        WrongState: it is closed.
    """
    require_reason(reason)
    row = get_for_update(CircuitBreaker, breaker)
    key = (row.firm_id, row.job_type)
    circuit = lock_circuit(key)
    if circuit.state is BreakerState.CLOSED:
        raise WrongState(f"the breaker of {row.job_type} is closed")
    declared = registry.find(row.job_type)
    # Code that does not know the type may close its breaker: nothing is counted by that rule.
    store_circuit(key, circuit, Circuit(), (declared and declared.breaker) or Breaker())
    before = {"job_type": row.job_type, "state": circuit.state.value}
    audit("breaker.close", row, by, reason, before=before)


@operation
def open_breaker(job_type: str, firm: Firm | int, reason: str, *, by: By = None) -> None:
    """Hold a type's jobs of one firm back as if they had failed; after the cooldown one is tried.

    To hold them back until further notice, `jobs.operations.limits.pause` them.

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
    key = (owner_id(firm), job_type)
    require_reason(reason)
    circuit = lock_circuit(key)
    if circuit.state is not BreakerState.CLOSED:
        raise WrongState(f"the breaker of {job_type} is {circuit.state.replace('_', ' ')}")
    store_circuit(key, circuit, circuit.opened(""), declared.breaker)
    rows = CircuitBreaker.objects.unscoped("the firm is in scope")
    row = rows.get(firm_id=key[0], job_type=job_type)
    before = {"job_type": job_type, "state": circuit.state.value}
    audit("breaker.open", row, by, reason, before=before)
