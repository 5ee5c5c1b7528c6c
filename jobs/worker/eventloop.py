"""The worker's event loop, on a thread of its own, and the `async def` handlers on it.

Each handler also occupies the pool thread that took its job, which waits for it. So one number
limits all handlers, and batches, timeouts and outcomes work alike for both kinds. A waiting thread
costs a few kilobytes; it closes its database connection, which would cost more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, ContextVar
from random import Random
from typing import Any
from weakref import WeakSet

from django.db import connection

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome
from jobs.errors import Cancel, JobTimeout, LeaseLost
from jobs.execution.async_bridge import checked_threads
from jobs.execution.child_process import end_if_forked
from jobs.execution.context import Signals
from jobs.execution.executor import execute
from jobs.worker.threads import Runner, StopReason

Task = asyncio.Task[Any]
# The worker checks every 50 ms, so this takes at least ten seconds. Checks are counted, not timed,
# because a process that was frozen finds its loop behind through no handler's fault.
BLOCKED_CHECKS = 200


class _SharedLoop(asyncio.SelectorEventLoop):
    """The loop that all handlers share; no handler can replace its threads or its task factory."""

    def __init__(self) -> None:
        super().__init__()
        super().set_task_factory(_create_task)
        super().set_default_executor(checked_threads())

    def set_task_factory(self, factory: object) -> None:
        """Do nothing: with another factory, tasks would outlive their handlers, or fail."""

    def set_default_executor(self, executor: object) -> None:
        """Do nothing: all handlers would use that executor, even after it has ended."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: a handler would end the threads of all others, for good."""


class EventLoop:
    """Runs callbacks and tasks on its thread, which starts when first needed."""

    def __init__(self, start_thread: Callable[[str, Callable[[], None]], None]) -> None:
        self._start_thread = start_thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._stopping = False
        self._pinged = False
        self._unanswered = 0

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call `function` soon on the loop's thread, in a copy of this thread's context."""
        with self._starting:
            if self._loop is None:
                self._loop = _SharedLoop()
                self._start_thread("event-loop", self._serve)
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """End the thread, if it ever started."""
        self._stopping = True
        if self._loop is not None:
            # A loop that is closed already raises RuntimeError.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)

    def blocking_task(self) -> Task | None:
        """Return the task that has blocked the loop for long, if any; call it regularly."""
        if self._loop is None:
            return None
        if not self._pinged:
            self._pinged = True
            self._unanswered = 0
            # A loop that is closed already raises RuntimeError.
            with contextlib.suppress(RuntimeError):
                self.call(self._answer)
            return None
        self._unanswered += 1
        return asyncio.current_task(self._loop) if self._unanswered >= BLOCKED_CHECKS else None

    def _answer(self) -> None:
        self._pinged = False

    def _serve(self) -> None:
        if self._loop is None:
            return
        while not self._stopping:
            # run_forever() ends if a handler's task raises one of these, or stops the loop.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        self._loop.close()


class EventLoopRunner(Runner):
    """Runs an `async def` handler as a task on the loop; stopping it cancels the task."""

    def __init__(self, claim: Claim, signals: Signals, rng: Random, loop: EventLoop) -> None:
        self.claim = claim
        self._signals = signals
        self._rng = rng
        self._loop = loop
        self._task: Task | None = None
        self._stopped: StopReason | None = None
        self._ended: Future[Any] = Future()
        self._tasks: WeakSet[Task] = WeakSet()

    def run(self) -> Outcome:
        """Run the handler on the loop while this thread waits."""
        return execute(
            self.claim,
            rng=self._rng,
            signals=self._signals,
            run_async=self._run_on_loop,
            watched=self.watched,
        )

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler's task."""
        if reason is StopReason.CANCEL:
            self._signals.cancel_requested = True
        elif reason is StopReason.LEASE_LOST:
            self._signals.lease_lost.set()
        self._loop.call(self._cancel, reason)

    def adopt(self, task: Task) -> None:
        """Note that the handler created this task, which is to end with it."""
        self._tasks.add(task)

    def owns(self, task: Task) -> bool:
        """Say whether the task is the handler's, or one that it created."""
        return task in self._tasks

    def _run_on_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        connection.close()
        self._loop.call(self._start, coroutine)
        return self._ended.result()

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        _current_runner.set(self)
        self._task = asyncio.get_running_loop().create_task(_guarded(coroutine))
        self._task.add_done_callback(lambda task: self._finish(task, coroutine))
        if self._stopped is not None:
            self._task.cancel()

    def _cancel(self, reason: StopReason) -> None:
        self._stopped = self._stopped or reason
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: Task, coroutine: Coroutine[Any, Any, Any]) -> None:
        # A task canceled before its first step never awaited the handler.
        coroutine.close()
        for left_over in self._tasks - {task}:
            left_over.cancel()
        error: BaseException | None = asyncio.CancelledError()
        result = None
        if not task.cancelled():
            result, error = task.result()
        if error is None and self._stopped is StopReason.TIMEOUT:
            # The handler caught the cancellation, and went on.
            error = JobTimeout()
        if error is None:
            self._ended.set_result(result)
        else:
            self._ended.set_exception(self._translated(error))

    def _translated(self, error: BaseException) -> BaseException:
        """Translate a cancellation by `stop`; any other error stays as it is."""
        # isinstance() would ask the error itself, whose class may raise.
        if not issubclass(type(error), asyncio.CancelledError):
            return error
        match self._stopped:
            case StopReason.CANCEL:
                return Cancel("canceled by request")
            case StopReason.TIMEOUT:
                return JobTimeout().with_traceback(error.__traceback__)
            case StopReason.LEASE_LOST:
                return LeaseLost(f"the worker of job {self.claim.job_id} lost its lease")
        return error


# Tasks that a handler creates inherit it.
_current_runner: ContextVar[EventLoopRunner | None] = ContextVar("current_runner", default=None)


def _create_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None
) -> Task:
    """Create a task that belongs to the current runner."""
    task = asyncio.Task(coroutine, loop=loop, context=context)
    runner = _current_runner.get()
    if runner is not None:
        runner.adopt(task)
    return task


async def _guarded(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Return what the handler returns or raises: a raised SystemExit would end the loop itself."""
    process = os.getpid()
    try:
        result = await coroutine
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
        end_if_forked(process, error)
        return None, error
    end_if_forked(process)
    return result, None
