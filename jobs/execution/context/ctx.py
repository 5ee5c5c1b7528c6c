"""`ctx`: the calls of `def` handlers, and their async twins."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from threading import Event
from time import monotonic
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from jobs.engine.enqueue import EnqueueResult
from jobs.engine.job_call import EnqueueOptions
from jobs.engine.new_job import EnqueueSpec
from jobs.execution.async_bridge import in_database_thread
from jobs.execution.context.calls import Encoded, JobCalls
from jobs.execution.context.fan_out import Fields, Then
from jobs.execution.context.transaction import JobTransaction
from tenants.models import Firm

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class JobContext(JobCalls):
    """The running job's view of the queue.

    A `def` handler uses the plain methods, an `async def` handler awaits their twins, which run
    the same on a few threads, in the context variables of the caller.
    """

    async def afirm(self) -> Firm:
        """Return the job's firm; Fatal when it is gone."""
        return await in_database_thread(lambda: self.firm)

    async def aheartbeat(self) -> None:
        """Check that the job is still this worker's."""
        await in_database_thread(self.heartbeat)

    async def aprogress(self, fraction: float, note: str = "") -> None:
        """Show how far the job got."""
        await in_database_thread(self.progress, fraction, note)

    @overload
    async def astep(
        self,
        name: str,
        function: Callable[P, Coroutine[Any, Any, Encoded]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> str: ...
    @overload
    async def astep(
        self,
        name: str,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...
    @overload
    async def astep(
        self, name: str, function: Callable[P, Encoded], /, *args: P.args, **kwargs: P.kwargs
    ) -> str: ...
    @overload
    async def astep(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    async def astep(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run `function(*args, **kwargs)` once in the job's life and return its result as stored.

        An `async def` function is awaited here. A plain one occupies one of the few threads: keep
        it short.
        """
        stored = await in_database_thread(self._find_step, name, function)
        if stored is not None:
            return stored[0]
        began = monotonic()
        if inspect.iscoroutinefunction(function):
            result = await function(*args, **kwargs)
        else:
            result = await in_database_thread(partial(function, *args, **kwargs))
            if inspect.isawaitable(result):
                result = await result
        return await in_database_thread(self._save_step, name, result, began)

    async def aenqueue(
        self, job_type: str, payload: Fields = None, **options: Unpack[EnqueueOptions]
    ) -> EnqueueResult:
        """Enqueue a child of this job, for its firm."""
        return await in_database_thread(lambda: self.enqueue(job_type, payload, **options))

    async def aenqueue_many(
        self, specs: Sequence[EnqueueSpec], *, then: Then | None = None
    ) -> list[EnqueueResult]:
        """Enqueue children of this job, and `then` one more when all these are settled."""
        name = self._fan_out_name(then)
        return await in_database_thread(self._enqueue_many, specs, then, name)

    async def run_in_transaction(
        self, function: Callable[[JobTransaction, *Ts], T], *args: *Ts
    ) -> T:
        """Call the plain function `function(tx, *args)` inside `transaction()`; return its result.

        It runs on one of the few threads, and rolls back if the handler is stopped in the meantime.
        """
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                "run_in_transaction() takes a plain function, because nothing can be awaited in it"
            )
        given_up = Event()

        def work() -> T:
            with self._completing(given_up.is_set) as tx:
                return function(tx, *args)

        try:
            return await in_database_thread(work)
        except asyncio.CancelledError:
            given_up.set()
            raise
