"""Operations on circuit breakers: close one, open one by hand."""

from __future__ import annotations

from uuid import UUID

from jobs import registry
from jobs.breaker import Breaker, Circuit
from jobs.engine.breakers import BreakerKey, lock_circuit, store_circuit
from jobs.errors import Fault, LimitInvalid, WrongState
from jobs.models import CircuitBreaker
from jobs.operations.limit_faults import key_faults
from jobs.operations.operation import By, audit, get_for_update, operation, owner_id, require_reason
from jobs.states import BreakerState
from tenants.models import Firm


@operation
def close_breaker(breaker: CircuitBreaker | UUID | str, reason: str, *, by: By = None) -> None:
    """Close a circuit breaker: the jobs that it holds back run, and its counts start at zero.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such breaker in scope.
        WrongState: the breaker is closed.
    """
    require_reason(reason)
    row = get_for_update(CircuitBreaker, breaker)
    key = BreakerKey(row.firm_id, row.job_type, row.limit_key)
    circuit = lock_circuit(key)
    if circuit.state is BreakerState.CLOSED:
        raise WrongState(f"the breaker of {row} is closed")
    declared = registry.find(row.job_type)
    # The default rule serves where this code does not know the type: a breaker that is closed with
    # counts of zero uses none of its numbers.
    store_circuit(key, circuit, Circuit(), (declared and declared.breaker) or Breaker())
    audit("breaker.close", row, by, reason, before=_before(key, circuit))


@operation
def open_breaker(
    job_type: str, firm: Firm | int, reason: str, *, limit_key: str = "", by: By = None
) -> CircuitBreaker:
    """Open a type's circuit breaker in one firm by hand; after the cooldown one job is tried.

    It holds back the jobs with `limit_key`; if that is empty, the jobs without a limit key.

    To hold jobs back until further notice, use `jobs.operations.limits.pause`.

    Raises:
        ReasonMissing: no reason given.
        LimitInvalid: the type is unknown or declares no breaker, or the key is too long.
        WrongState: the breaker is not closed.
        TenantMismatch: the firm is out of scope.
    """
    declared = registry.find(job_type)
    if declared is None or declared.breaker is None:
        fault = Fault("job_type", "no_breaker", f"{job_type!r} declares no circuit breaker")
        raise LimitInvalid([fault])
    if faults := key_faults(limit_key):
        raise LimitInvalid(faults)
    key = BreakerKey(owner_id(firm), job_type, limit_key)
    require_reason(reason)
    circuit = lock_circuit(key)
    if circuit.state is not BreakerState.CLOSED:
        state = circuit.state.replace("_", " ")
        raise WrongState(f"the breaker of {' '.join(filter(None, key[1:]))} is {state}")
    store_circuit(key, circuit, circuit.opened(""), declared.breaker)
    rows = CircuitBreaker.objects.unscoped("the firm is in scope")
    row: CircuitBreaker = rows.select_related("firm").get(**key._asdict())
    audit("breaker.open", row, by, reason, before=_before(key, circuit))
    return row


def _before(key: BreakerKey, circuit: Circuit) -> dict[str, str]:
    return {
        "job_type": key.job_type,
        "limit_key": key.limit_key,
        "state": circuit.state.value,
    }
