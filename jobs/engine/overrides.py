"""What operators do to circuit breakers: close one, open one by hand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs import registry
from jobs.breaker import Breaker, Circuit
from jobs.engine.breakers import begin, write
from jobs.engine.lookup import in_sight
from jobs.engine.transactions import in_transaction
from jobs.errors import ReasonMissing, WrongState
from jobs.models import CircuitBreaker
from jobs.states import BreakerState
from tenants.audit import Actor, record_operation


def close(breaker_id: UUID, reason: str, *, by: Actor) -> None:
    """Let the type's jobs of the firm run again, and count anew.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such breaker in sight.
        WrongState: it is closed.
    """
    if not reason.strip():
        raise ReasonMissing
    in_transaction(lambda: _close(breaker_id, reason, by), savepoint=True)


def _close(breaker_id: UUID, reason: str, by: Actor) -> None:
    row = in_sight(CircuitBreaker, breaker_id)
    key = (row.firm_id, row.job_type)
    circuit = begin(key)
    if circuit.state is BreakerState.CLOSED:
        raise WrongState(f"the breaker of {row.job_type} is closed")
    declared = registry.find(row.job_type)
    rule = declared.breaker if declared else None
    # Code that does not know the type may close its breaker; nothing is counted by that rule.
    write(key, circuit, Circuit(), rule or Breaker())
    _record(by, "breaker.close", row, reason, before=circuit.state)


def open_by_hand(firm_id: int, job_type: str, rule: Breaker, reason: str, *, by: Actor) -> None:
    """Park the type's jobs of the firm as if they had failed: one is tried after the cooldown.

    The caller has checked that the firm is in scope.

    Raises:
        ReasonMissing: no reason given.
        WrongState: it is not closed.
    """
    if not reason.strip():
        raise ReasonMissing
    key = (firm_id, job_type)
    in_transaction(lambda: _open(key, rule, reason, by), savepoint=True)


def _open(key: tuple[int, str], rule: Breaker, reason: str, by: Actor) -> None:
    circuit = begin(key)
    if circuit.state is not BreakerState.CLOSED:
        raise WrongState(f"the breaker of {key[1]} is {circuit.state.replace('_', ' ')}")
    write(key, circuit, circuit.opened(""), rule)
    rows = CircuitBreaker.objects.unscoped("the caller's firm was checked")
    _record(
        by, "breaker.open", rows.get(firm_id=key[0], job_type=key[1]), reason, before=circuit.state
    )


def _record(by: Actor, act: str, row: Any, reason: str, *, before: BreakerState) -> None:
    record_operation(
        by,
        act,
        firm_id=row.firm_id,
        target=("circuit_breaker", row.pk),
        reason=reason,
        before={"job_type": row.job_type, "state": before.value},
    )
