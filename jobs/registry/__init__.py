"""Job types: each declared at its handler, and found by name."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, Protocol, TypedDict, Unpack, cast

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from jobs.breaker import Breaker
from jobs.errors import Fault, PayloadInvalid, UnknownJobType
from jobs.registry.declaration import (
    category_of,
    check_declaration,
    check_name,
    check_options,
    qualified_name,
)
from jobs.registry.handlers import Declare, Handler, JobHandler, P, Payload, R
from jobs.registry.payload import JobPayload, is_older
from jobs.registry.timetable import Scheduled
from jobs.retry import RetryPolicy
from jobs.states import Category, CountedBy

__all__ = ["JobHandler", "JobPayload", "JobType", "Scheduled", "job"]

HANDLER_MODULE = "job_handlers"
# The queue of types and tasks that name none.
DEFAULT_QUEUE = "default"

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
KeyFunction = Callable[[Any], str]
LimitKeyFunction = Callable[[Any], str | None]
UnitsFunction = Callable[[Any], int]
LockCountedBy = Literal["firm", "all_firms"] | CountedBy


@dataclass(frozen=True, kw_only=True)
class JobType:
    """A declared job type."""

    name: str
    category: Category
    payload_model: type[JobPayload]
    handler: Handler
    version: str = "1.0"
    upcasters: Mapping[str, Upcaster] = field(default_factory=dict)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_seconds: float = 1800
    lock_key: KeyFunction | None = None
    lock_limit: int = 1
    lock_counted_by: LockCountedBy = CountedBy.FIRM
    limit_key: LimitKeyFunction | None = None
    limit_units: int | UnitsFunction = 1
    idempotency_key: KeyFunction | None = None
    once_only: bool = False
    unique_for: timedelta | float | None = None
    dead_letter: bool = True
    breaker: Breaker | None = None
    queue: str = DEFAULT_QUEUE
    # None: normal, or the priority of the job that fans out.
    priority: int | None = None
    # None: the firm's retention.
    retention: timedelta | None = None
    schedule: Scheduled | None = None

    @cached_property
    def is_async(self) -> bool:
        """Whether the handler is an `async def`, which runs on the event loop."""
        return inspect.iscoroutinefunction(self.handler)

    def reads(self, version: str) -> bool:
        """Say whether payloads of this version can be brought to the current one."""
        return version == self.version or version in self.upcasters

    def leaves_to_newer_code(self, version: str) -> bool:
        """Say whether payloads of this version cannot be read here, but may be by newer code."""
        return not (self.reads(version) or is_older(version, self.version))


_types: dict[str, JobType] = {}


class TypeFinder(Protocol):
    """Knows types that `@job` does not declare: those of tasks."""

    def find(self, name: str) -> JobType | None:
        """Return the type of a name that nothing declared yet."""

    def discover(self) -> None:
        """Import the modules that declare types."""

    def queues(self) -> Collection[str]:
        """Return queues that may have no type yet."""

    def types_sent_to(self, queue: str) -> Collection[str]:
        """Return the names of types whose jobs may be in this queue, beside those declared in it."""


_finders: list[TypeFinder] = []
# Each is called with every declared function and the name of its type.
_listeners: list[Callable[[Handler, str], None]] = []


class JobOptions(TypedDict, total=False):
    """What `@job` may be told beside name, category and payload: the fields of `JobType`."""

    version: str
    upcasters: Mapping[str, Upcaster]
    retry: RetryPolicy
    timeout_seconds: float
    lock_key: KeyFunction | None
    lock_limit: int
    lock_counted_by: LockCountedBy
    limit_key: LimitKeyFunction | None
    limit_units: int | UnitsFunction
    idempotency_key: KeyFunction | None
    once_only: bool
    unique_for: timedelta | float | None
    dead_letter: bool
    breaker: Breaker | None
    queue: str
    priority: int | None
    retention: timedelta | None
    schedule: Scheduled | None


def job(
    name: str,
    *,
    category: Category | str,
    payload: Callable[P, Payload],
    **options: Unpack[JobOptions],
) -> Declare[P, Payload]:
    """Declare the decorated function as the handler of a job type; `payload` is a JobPayload's class.

    The handler, a `def` or an `async def`, is called as `handler(payload, ctx)`; what it returns
    (a dict, or None for `{}`) becomes the job's result. `lock_key`, `limit_key`, `limit_units` and
    `idempotency_key` are called with the validated payload at enqueue. At most `lock_limit` jobs
    with a lock key run at once: of a firm, or of all firms with `lock_counted_by="all_firms"`.
    Limits can be set for each `limit_key`, such as a mailbox; the job counts for `limit_units` in
    rates. `breaker` holds back a firm's jobs of the type and limit key while they keep failing
    alike. An upcaster takes a payload of its version and returns a newer one, of the current
    version unless it sets `version`. For `unique_for`, a timedelta or seconds, the idempotency key
    stays taken, even when the job is settled: no other job is stored with it. `queue` is what
    `runworker --queue` serves; `priority` is that of jobs enqueued without one. `retention` is how
    long settled jobs are kept, instead of the firm's time. `schedule` says when a job of the type
    is enqueued by itself.

    The function gets methods that enqueue jobs of its type: `greet.enqueue(name="Ada")`.

    Raises:
        ValueError: the declaration contradicts itself, or the name is taken.
        TypeError: there is no such option, one is of the wrong type, or the function does not take
            (payload, ctx) or is a generator.
    """
    check_name(name)
    check_options(name, options, JobOptions.__optional_keys__)

    def register(handler: Callable[[Payload, Any], R]) -> JobHandler[P, Payload, R]:
        declared = JobType(
            name=name,
            category=category_of(name, category),
            payload_model=cast("type[JobPayload]", payload),
            handler=handler,
            **options,
        )
        _announce(declared)
        return cast("JobHandler[P, Payload, R]", handler)

    return register


def _announce(declared: JobType) -> None:
    declare(declared)
    for listener in _listeners:
        listener(declared.handler, declared.name)


def declare(job_type: JobType) -> None:
    """Add a type, as `@job` does.

    Raises:
        ValueError: the declaration contradicts itself, or the name is taken.
        TypeError: an option is of the wrong type, or its handler does not take (payload, ctx) or
            is a generator.
    """
    check_declaration(job_type)
    known = _types.get(job_type.name)
    if known is not None and qualified_name(known.handler) != qualified_name(job_type.handler):
        raise ValueError(f"{job_type.name} is declared twice: {qualified_name(known.handler)}")
    _types[job_type.name] = job_type


def find(name: str) -> JobType | None:
    """Return the type of this name, None when this code does not know it."""
    return _types.get(name) or _find_elsewhere(name)


def on_declaration(listener: Callable[[Handler, str], None]) -> None:
    """Call `listener` with each function that `@job` decorates, or has decorated already."""
    if listener not in _listeners:
        _listeners.append(listener)
    for declared in _types.values():
        listener(declared.handler, declared.name)


def is_declared(name: str) -> bool:
    """Say whether this process has seen the declaration of this type."""
    return name in _types


def add_finder(finder: TypeFinder) -> None:
    """Ask `finder` for types whose declaration this process has not seen."""
    if finder not in _finders:
        _finders.append(finder)


def _find_elsewhere(name: str) -> JobType | None:
    return next((found for finder in _finders if (found := finder.find(name)) is not None), None)


def get(name: str) -> JobType:
    """Return the type of this name.

    Raises:
        UnknownJobType: this code does not know it; the error suggests similar names.
        PayloadInvalid: it is no name, such as the function itself.
    """
    given: object = name
    try:
        found = find(name)
    except (TypeError, AttributeError):
        # The value cannot be a key of a dict, or a finder cannot read it.
        if isinstance(given, str):
            raise
        found = None
    if found is None and not isinstance(given, str):
        raise _no_name(given)
    if found is None:
        raise UnknownJobType(name, difflib.get_close_matches(name, _types, n=2))
    return found


def name_faults(given: object) -> list[Fault]:
    """Return the faults of what should be a type's name; an unknown name is no fault here."""
    return [] if isinstance(given, str) else _no_name(given).faults


def _no_name(given: object) -> PayloadInvalid:
    declared = next((one.name for one in _types.values() if one.handler is given), None)
    kind = type(given).__name__
    message = f"must be the name of a job type, not {kind}"
    if declared is not None:
        call = f"{getattr(given, '__name__', kind)}.enqueue(…)"
        message = f"{message}: call {call}, or pass {declared!r}"
    return PayloadInvalid(declared or kind, [Fault("job_type", "wrong_type", message)])


def all_types() -> list[JobType]:
    """Return every known type, by name."""
    return [_types[name] for name in sorted(_types)]


def queue_names() -> list[str]:
    """Return the queues there are, sorted."""
    named = {declared.queue for declared in _types.values()}
    return sorted(named.union(*(finder.queues() for finder in _finders)))


def types_in_queue(queue: str) -> list[str]:
    """Return the names of the types whose jobs are in a queue, sorted."""
    declared = {one.name for one in _types.values() if one.queue == queue}
    return sorted(declared.union(*(finder.types_sent_to(queue) for finder in _finders)))


def breaker_of(name: str) -> Breaker | None:
    """Return the breaker that the type declares, or None."""
    declared = _types.get(name)
    return None if declared is None else declared.breaker


def autodiscover() -> None:
    """Import the `job_handlers` module, or every module of that package, of each installed app."""
    for config in apps.get_app_configs():
        if config.module is None or not module_has_submodule(config.module, HANDLER_MODULE):
            continue
        package = importlib.import_module(f"{config.name}.{HANDLER_MODULE}")
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            importlib.import_module(f"{package.__name__}.{module.name}")
    for finder in _finders:
        finder.discover()
