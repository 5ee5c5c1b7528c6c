"""What type checkers know of a declared handler: its payload's fields are the keywords of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack

from jobs.registry.payload import JobPayload

if TYPE_CHECKING:
    from jobs.engine.enqueue import EnqueueResult
    from jobs.engine.job_call import EnqueueOptions, JobCall
    from jobs.engine.new_job import EnqueueSpec

Handler = Callable[..., Any]
P = ParamSpec("P")
Payload = TypeVar("Payload", bound=JobPayload)
PayloadIn_contra = TypeVar("PayloadIn_contra", bound=JobPayload, contravariant=True)
R = TypeVar("R")
ROut_co = TypeVar("ROut_co", covariant=True)


class JobHandler(Protocol[P, PayloadIn_contra, ROut_co]):
    """A declared handler: the function as it was, and the typed calls of its type."""

    def __call__(self, payload: PayloadIn_contra, ctx: Any) -> ROut_co:
        """Call the handler itself; `ctx` may be a stand-in."""

    def enqueue(self, *args: P.args, **fields: P.kwargs) -> EnqueueResult:
        """Enqueue a job with these fields."""

    async def aenqueue(self, *args: P.args, **fields: P.kwargs) -> EnqueueResult:
        """Enqueue a job with these fields, from a coroutine."""

    def spec(self, *args: P.args, **fields: P.kwargs) -> EnqueueSpec:
        """Return the job for `enqueue_many`."""

    def using(self, **options: Unpack[EnqueueOptions]) -> JobCall[P]:
        """Return the calls with options of `enqueue`."""


class Declare(Protocol[P, Payload]):
    """What `@job(…)` is: it takes a handler of that payload."""

    def __call__(self, handler: Callable[[Payload, Any], R], /) -> JobHandler[P, Payload, R]:
        """Declare the handler."""
