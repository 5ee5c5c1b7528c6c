"""The parts of every operation: a transaction, the row it changes, a reason, an audit entry.

`by` is a user, an `Actor` (a user and how they reached the service), or None for the service's own
code. Inside a tenant scope only the scope's rows are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models

from interfaces.plain_json import is_text
from jobs.engine.counters import Counted
from jobs.engine.enqueue import EnqueueResult
from jobs.engine.owner import firm_id_of
from jobs.engine.transactions import in_transaction
from jobs.errors import ArgumentsInvalid, Fault, ReasonMissing, UnknownJob
from jobs.models import (
    BulkRun,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    JobQueue,
    NotificationEndpoint,
    Pause,
    RateLimit,
    Schedule,
)
from jobs.states import Status
from tenants.audit import Actor, as_actor, record_operation
from tenants.errors import TenantMismatch
from tenants.models import Firm
from tenants.scope import current_scope
from tenants.users import is_stored, is_user

By = Actor | AbstractBaseUser | None
# What names a job: its row, its id, or what its enqueue returned.
JobGiven = JobQueue | EnqueueResult | UUID | str
P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=models.Model)

# The audit log's names of the models.
_TARGET_TYPES: dict[type[models.Model], str] = {
    JobQueue: "job",
    BulkRun: "bulk_run",
    DeadLetterQueue: "dead_letter",
    ConcurrencyLock: "lock",
    Pause: "pause",
    RateLimit: "rate_limit",
    CircuitBreaker: "circuit_breaker",
    Schedule: "schedule",
    NotificationEndpoint: "endpoint",
}


def operation(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` in one transaction, or in a savepoint of the caller's.

    After a deadlock or while the database is busy it is repeated, unless the transaction is the
    caller's. If `by` or `to` is not a user, or the reason is not text, the call is refused.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if faults := list(_account_faults(kwargs)):
            raise ArgumentsInvalid(faults)
        return in_transaction(lambda: function(*args, **kwargs), savepoint=True)

    return run


def _account_faults(given: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the keyword arguments `by`, `to`, `reason` and `note`, if given."""
    for name in ("by", "to"):
        who = given.get(name)
        if who is None or (name == "by" and isinstance(who, Actor)):
            continue
        if not is_user(who):
            yield Fault(name, "wrong_type", f"must be a user, not {type(who).__name__}")
        elif not is_stored(who):
            yield Fault(name, "not_stored", "is not stored yet: save the user first")
    for name in ("reason", "note"):
        if not is_text(text := given.get(name, "")):
            yield Fault(name, "wrong_type", f"must be a string, not {type(text).__name__}")


def require_reason(reason: str) -> None:
    """Refuse a reason that is blank or not text.

    Raises:
        ReasonMissing: the reason is blank.
        ArgumentsInvalid: the reason is not text.
    """
    if faults := list(_account_faults({"reason": reason})):
        raise ArgumentsInvalid(faults)
    if not reason.strip():
        raise ReasonMissing


def get_for_update(model: type[M], target: M | EnqueueResult | UUID | str) -> M:
    """Return the row as `get_row` does, locked until the transaction ends."""
    return get_row(model, target, lock=True)


def get_row(model: type[M], target: M | EnqueueResult | UUID | str, *, lock: bool = False) -> M:
    """Return the row, given as itself, its id or the id's text; a job also as its enqueue returned it.

    Raises:
        UnknownJob: the scope has no such row, or the text is no id.
    """
    if isinstance(target, EnqueueResult):
        target = target.job_id
    try:
        pk = UUID(str(target.pk if isinstance(target, models.Model) else target))
    except ValueError as error:
        raise UnknownJob(f"{str(target)[:64]!r} is not an id") from error
    manager: Any = model._default_manager
    # A project's own code may call an operation without a scope, because it knows the id.
    rows = manager.unscoped("an operation on an id") if current_scope() is None else manager.all()
    if lock:
        rows = rows.select_for_update(no_key=True)
    found: M | None = rows.filter(pk=pk).first()
    if found is None:
        raise UnknownJob(f"no {model._meta.verbose_name} has the id {pk}")
    return found


def owner_id(firm: Firm | int | None) -> int:
    """Return the id of the firm that owns a new row; the system firm owns rows for every firm.

    Raises:
        TenantMismatch: the firm is out of scope; without a firm, not every firm is in scope.
        ArgumentsInvalid: there is no such firm.
    """
    scope = current_scope()
    if firm is None:
        if scope is not None and scope.firm_ids is not None:
            raise TenantMismatch(
                "without firm= it would hold for every firm, and not every firm is in scope: give "
                "firm=, or call it outside the scope"
            )
        return Firm.objects.system().pk
    firm_id = firm_id_of(firm)
    if scope is not None and not scope.allows(firm_id):
        raise TenantMismatch(f"firm {firm_id} is not in scope")
    return firm_id


def restarts_counted(jobs: Iterable[JobQueue]) -> Iterator[Counted]:
    """Yield what to count when these jobs restart; they are given as they were before."""
    for job in jobs:
        if job.status in (Status.FAILED, Status.CANCELED):
            yield Counted(job.firm_id, job.category, f"{job.status}_restarted")


def audit(
    act: str,
    row: Any,
    by: By,
    reason: str = "",
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write the audit entry of a change to `row`, in the operation's transaction."""
    record_operation(
        as_actor(by),
        act,
        firm_id=row.firm_id,
        target=(_TARGET_TYPES[type(row)], row.pk),
        reason=reason,
        before=before,
        after=after,
    )
