"""Runs blocking calls of coroutines on a few threads, which end when they are idle."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from asgiref.sync import SyncToAsync, async_to_sync, sync_to_async
from django.db import close_old_connections, connections

from jobs.execution.connections import drop_open_transactions, require_no_transaction

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Each holds a database connection.
MAX_THREADS = 8
IDLE_SECONDS = 5.0


class IdleThreads(Executor):
    """Runs calls on up to `max_threads` daemon threads.

    Unlike those of a ThreadPoolExecutor, a thread ends after `idle_seconds` without work, closes
    its connections, and never delays the exit of the process.
    """

    def __init__(self, max_threads: int, idle_seconds: float) -> None:
        self._max_threads = max_threads
        self._idle_seconds = idle_seconds
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._ending = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `fn(*args, **kwargs)` on one of the threads."""
        future: Future[T] = Future()
        with self._changed:
            self._queue.append((future, partial(fn, *args, **kwargs)))
            if len(self._queue) > self._idle and self._threads < self._max_threads:
                self._threads += 1
                threading.Thread(target=self._run, name="async-bridge", daemon=True).start()
            self._changed.notify_all()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the idle threads now; a later call starts new ones."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._threads or not wait)
            self._ending = False

    def _run(self) -> None:
        while (work := self._next()) is not None:
            future, call = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(_with_fresh_connections(call))
            except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
                future.set_exception(error)
            # Keep no reference to this call while waiting for the next.
            del work, future, call

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._queue or self._ending, self._idle_seconds)
            self._idle -= 1
            if self._queue:
                return self._queue.popleft()
        connections.close_all()
        with self._changed:
            if self._queue:
                # Submitted in the meantime, when no further thread could start.
                return self._queue.popleft()
            self._threads -= 1
            self._changed.notify_all()
        return None


def _with_fresh_connections(call: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return _checked(call)
    finally:
        close_old_connections()


def _checked(call: Callable[[], T]) -> T:
    """Return what `call` returns; fail it when it leaves a transaction open on this thread."""
    try:
        result = call()
        require_no_transaction()
    except BaseException as raised:
        error = drop_open_transactions(raised)
        if type(error) is StopIteration:
            # A future refuses StopIteration: the caller that awaits the call would wait for ever.
            error = RuntimeError("the call raised StopIteration")
        # Replaces a connection that the database has ended; nothing else does.
        close_old_connections()
        if error is raised:
            raise
        raise error from raised
    return result


class CheckedThreads(ThreadPoolExecutor):
    """Threads for calls of handlers on the event loop that do not go through `ctx`.

    Those are Django's asynchronous ORM, `sync_to_async` and `asyncio.to_thread`. Handlers share
    the threads: a call that leaves a transaction open fails, and what it wrote is rolled back.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `fn(*args, **kwargs)` on one of the threads."""
        return super().submit(_checked, partial(fn, *args, **kwargs))


def checked_threads() -> CheckedThreads:
    """Return threads for this process's event loop; give `sync_to_async` a checked one, too."""
    SyncToAsync.single_thread_executor = CheckedThreads(
        max_workers=1, thread_name_prefix="sync-to-async"
    )
    return CheckedThreads(thread_name_prefix="to-thread")


DATABASE_THREADS = IdleThreads(MAX_THREADS, IDLE_SECONDS)


_stay: ContextVar[bool] = ContextVar("calls_stay_on_this_thread", default=False)


@contextmanager
def calls_stay_on_this_thread() -> Iterator[None]:
    """Keep the calls of coroutines that `async_to_sync` runs for this thread on this thread.

    Other threads do not see what the transaction of a test, or of a rehearsal, has written.
    """
    token = _stay.set(True)
    try:
        yield
    finally:
        _stay.reset(token)


@async_to_sync
async def run_on_this_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a handler's coroutine to its end, where there is no worker's event loop."""
    return await coroutine


async def in_database_thread(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function(*args)` on one of the threads, in a copy of the caller's context variables."""
    if _stay.get():
        return await sync_to_async(function)(*args)
    call = partial(copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(DATABASE_THREADS, call)
