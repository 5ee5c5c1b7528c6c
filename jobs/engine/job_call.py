"""Typed calls of a declared job: `greet.enqueue(name="Ada")`, for the decorated function `greet`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, ParamSpec, TypedDict, Unpack, cast

from asgiref.sync import sync_to_async

from jobs.engine.enqueue import EnqueueResult, enqueue
from jobs.engine.new_job import EnqueueSpec
from jobs.registry.payload import plain_value
from tenants.models import Firm

P = ParamSpec("P")


class SpecOptions(TypedDict, total=False):
    """The options of `EnqueueSpec`."""

    user: Any
    at: datetime | None
    delay: timedelta | float | None
    expires_at: datetime | None
    priority: int | None
    max_attempts: int | None
    lock_key: str | None
    limit_key: str | None
    idempotency_key: str | None
    correlation_id: str | None
    unique_for: timedelta | float | None
    on_conflict: Literal["replace", "debounce"] | None
    max_wait: timedelta | float | None


class EnqueueOptions(SpecOptions, total=False):
    """The options of `enqueue`."""

    firm: Firm | int | None


@dataclass(frozen=True)
class JobCall(Generic[P]):
    """A job type and options; its methods take the fields of the type's payload as keywords."""

    job_type: str
    options: EnqueueOptions = field(default_factory=EnqueueOptions)

    def using(self, **options: Unpack[EnqueueOptions]) -> JobCall[P]:
        """Return the same call with these options of `enqueue`.

        Raises:
            TypeError: there is no such option.
        """
        if not EnqueueOptions.__optional_keys__.issuperset(options):
            _refuse_unknown(options)
        return JobCall(self.job_type, cast("EnqueueOptions", {**self.options, **options}))

    def enqueue(self, *args: P.args, **fields: P.kwargs) -> EnqueueResult:
        """Enqueue a job with these fields; as `jobs.queue.enqueue`.

        Raises:
            PayloadInvalid: they are refused.
            MissingTenant: no firm given, none in scope, and there are several.
            WrongPlace: in a coroutine.
        """
        return enqueue(self.job_type, _plain_fields(*args, **fields), **self.options)

    async def aenqueue(self, *args: P.args, **fields: P.kwargs) -> EnqueueResult:
        """Enqueue a job with these fields; as `enqueue`, for coroutines."""
        return await sync_to_async(self.enqueue)(*args, **fields)

    def spec(self, *args: P.args, **fields: P.kwargs) -> EnqueueSpec:
        """Return the job for `enqueue_many`, which takes the firm of all its jobs.

        Raises:
            TypeError: a firm was given.
        """
        if "firm" in self.options:
            raise TypeError("enqueue_many() takes the firm of all its jobs: leave it out here")
        options = cast("SpecOptions", self.options)
        return EnqueueSpec(self.job_type, _plain_fields(*args, **fields), **options)


def _refuse_unknown(options: Collection[str]) -> None:
    known = EnqueueOptions.__optional_keys__
    unknown = next(option for option in options if option not in known)
    close = difflib.get_close_matches(unknown, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise TypeError(f"using() got an unexpected keyword argument {unknown!r}{hint}")


def _plain_fields(*args: Any, **fields: Any) -> dict[str, Any]:
    """Return the fields as plain JSON; the queue adds the envelope."""
    if args:
        raise TypeError("give the payload's fields by name: enqueue(name='Ada')")
    return {name: plain_value(value) for name, value in fields.items()}


def add_calls(handler: Callable[..., Any], job_type: str) -> None:
    """Give a declared function the methods of `JobCall` for its type."""
    call = JobCall[...](job_type)
    # Not every callable takes attributes.
    with suppress(AttributeError):
        for name in ("enqueue", "aenqueue", "spec", "using"):
            setattr(handler, name, getattr(call, name))
