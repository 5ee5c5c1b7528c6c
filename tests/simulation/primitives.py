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
    """The actors that wait for the same thing, in the order in which they came."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiters: list[_Waiter] = []

    def wait(self, timeout: float | None) -> bool:
        """Wait to be called, for at most `timeout` seconds of the process's clock."""
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
        """Let the first `most` actors go on, or all."""
        called, self._waiters = self._waiters[:most], self._waiters[len(self._waiters[:most]) :]
        for waiter in called:
            waiter.called = True
            self._scheduler.wake(waiter.actor)


class Lock:
    """Stands in for `threading.RLock`, and for `Lock`, which is the same if taken only once."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Actor | None = None
        self._depth = 0
        self._queue = Queue(scheduler)

    def acquire(self) -> bool:
        """Take the lock when it is free."""
        actor = self._scheduler.current
        while self._depth and self._owner is not actor and not self._scheduler.closing:
            self._queue.wait(None)
        self._owner, self._depth = actor, self._depth + 1
        return True

    def release(self) -> None:
        """Release the lock once."""
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._queue.call(1)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def release_whole(self) -> int:
        """Release the lock however often it was taken; return how often that was."""
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def acquire_again(self, depth: int) -> None:
        """Take the lock as often as before."""
        self.acquire()
        self._depth = depth


class Condition:
    """Stands in for `threading.Condition`."""

    def __init__(self, scheduler: Scheduler, lock: Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or Lock(scheduler)
        self._queue = Queue(scheduler)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait to be notified, and take the lock again."""
        depth = self._lock.release_whole()
        try:
            return self._queue.wait(timeout)
        finally:
            self._lock.acquire_again(depth)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until `predicate` is true; return its last value."""
        until = None if timeout is None else self._scheduler.clock() + timeout
        while not (found := predicate()):
            left = None if until is None else until - self._scheduler.clock()
            # Rounding may leave a moment so short that waiting for it lets no time pass.
            if left is not None and left <= 1e-9:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        """Let `n` of the waiting actors go on."""
        self._queue.call(n)

    def notify_all(self) -> None:
        """Let all waiting actors go on."""
        self._queue.call()


class Event:
    """Stands in for `threading.Event`; a set of events has the same order in every run."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._queue = Queue(scheduler)
        self._set = False
        self._number = next(scheduler.numbers)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def is_set(self) -> bool:
        """Say whether the event is set."""
        return self._set

    def set(self) -> None:
        """Set the event, and let all waiting actors go on."""
        self._set = True
        self._queue.call()

    def clear(self) -> None:
        """Clear the event."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set."""
        if not self._set:
            self._queue.wait(timeout)
        return self._set


class Thread:
    """Stands in for `threading.Thread`, in the process that starts it."""

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
        """Start the thread."""
        self._scheduler.spawn(self._scheduler.running.process, self._name, self._target)


class SimpleQueue:
    """Stands in for `queue.SimpleQueue`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._queue = Queue(scheduler)
        self._items: deque[object] = deque()

    def put(self, item: object) -> None:
        """Add an item at the end."""
        self._items.append(item)
        self._queue.call(1)

    def get(self) -> object:
        """Wait for an item, and take it."""
        while not self._items:
            self._queue.wait(None)
        return self._items.popleft()
