"""What `threading` and `queue` offer, for virtual threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.scheduler import Actor, Scheduler


@dataclass(eq=False)
class _Waiter:
    actor: Actor
    called: bool = False


class Queue:
    """The actors that wait for one thing, in the order they came."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiters: list[_Waiter] = []

    def wait(self, timeout: float | None) -> bool:
        """Wait to be called, `timeout` seconds of the process's clock at most."""
        scheduler = self._scheduler
        waiter = _Waiter(scheduler.running)
        self._waiters.append(waiter)
        try:
            scheduler.wait(None if timeout is None else scheduler.true_seconds(timeout))
        finally:
            if not waiter.called:
                self._waiters.remove(waiter)
        return waiter.called

    def call(self, most: int | None = None) -> None:
        """Let the first of them go on, or all."""
        called, self._waiters = self._waiters[:most], self._waiters[len(self._waiters[:most]) :]
        for waiter in called:
            waiter.called = True
            self._scheduler.wake(waiter.actor)


class Lock:
    """`threading.RLock`, which is a `Lock` to whoever takes it but once."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Actor | None = None
        self._depth = 0
        self._queue = Queue(scheduler)

    def acquire(self) -> bool:
        """Take it, when it is free."""
        actor = self._scheduler.current
        while self._depth and self._owner is not actor and not self._scheduler.closing:
            self._queue.wait(None)
        self._owner, self._depth = actor, self._depth + 1
        return True

    def release(self) -> None:
        """Give it up once."""
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._queue.call(1)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def release_whole(self) -> int:
        """Give it up however often it was taken; return that."""
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def acquire_again(self, depth: int) -> None:
        """Take it as often as before."""
        self.acquire()
        self._depth = depth


class Condition:
    """`threading.Condition`."""

    def __init__(self, scheduler: Scheduler, lock: Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or Lock(scheduler)
        self._queue = Queue(scheduler)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait to be notified."""
        depth = self._lock.release_whole()
        try:
            return self._queue.wait(timeout)
        finally:
            self._lock.acquire_again(depth)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until that is so; return what it says in the end."""
        until = None if timeout is None else self._scheduler.clock() + timeout
        while not (found := predicate()):
            left = None if until is None else until - self._scheduler.clock()
            # A moment that rounding leaves would be waited for without time passing.
            if left is not None and left <= 1e-9:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        """Let `n` of those who wait go on."""
        self._queue.call(n)

    def notify_all(self) -> None:
        """Let all of them go on."""
        self._queue.call()


class Event:
    """`threading.Event`; where many lie in a set, they come in the same order in every run."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._queue = Queue(scheduler)
        self._set = False
        self._number = next(scheduler.numbers)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def is_set(self) -> bool:
        """Say whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, and let all go on who wait."""
        self._set = True
        self._queue.call()

    def clear(self) -> None:
        """Unset it."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        if not self._set:
            self._queue.wait(timeout)
        return self._set


class Thread:
    """`threading.Thread`, of the process that starts it."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        target: Callable[[], None],
        name: str,
        daemon: bool = True,
    ) -> None:
        self._scheduler = scheduler
        self._target = target
        self._name = name

    def start(self) -> None:
        """Let it begin."""
        self._scheduler.spawn(self._scheduler.running.process, self._name, self._target)


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._queue = Queue(scheduler)
        self._items: deque[object] = deque()

    def put(self, item: object) -> None:
        """Add something at the end."""
        self._items.append(item)
        self._queue.call(1)

    def get(self) -> object:
        """Wait for something, and take it."""
        while not self._items:
            self._queue.wait(None)
        return self._items.popleft()
