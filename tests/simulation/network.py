"""The way from a virtual thread to the database and back, on which much can go wrong.

What happens to a call is drawn before it is sent. A call is a transaction, or a statement outside
of one. Other threads run before a call arrives at the database, and before its answer is back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.transaction import Atomic

from tests.simulation.scheduler import Actor, Crashed, Process, Scheduler


class Fate(StrEnum):
    """What becomes of one call."""

    ANSWERED = "answered"
    NOT_DELIVERED = "not delivered"
    BUSY = "database is locked"
    ROLLED_BACK = "rolled back"
    ANSWER_LOST = "answer lost"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    FREEZE_BEFORE = "freeze before"
    FREEZE_AFTER = "freeze after"


# In percent; all other calls are answered.
IN_A_STORM = {
    Fate.NOT_DELIVERED: 1.0,
    Fate.BUSY: 0.5,
    Fate.ROLLED_BACK: 1.0,
    Fate.ANSWER_LOST: 2.0,
    Fate.CRASH_BEFORE: 0.3,
    Fate.CRASH_AFTER: 0.7,
    Fate.FREEZE_BEFORE: 0.3,
    Fate.FREEZE_AFTER: 1.0,
}
ANSWERLESS = frozenset({Fate.ROLLED_BACK, Fate.ANSWER_LOST})


@dataclass
class Weather:
    """The state of the network."""

    storm: bool = True
    outage: bool = False
    slow: bool = False


class Network:
    """Delivers calls to the database, and the answers."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: Random,
        *,
        crash: Callable[[Process], None],
        freeze: Callable[[Process], None],
        committed: Callable[[], None],
        trace: Callable[[str], None],
    ) -> None:
        self.weather = Weather()
        self._scheduler = scheduler
        self._rng = rng
        self._crash = crash
        self._freeze = freeze
        self._committed = committed
        self._trace = trace
        self._fate = Fate.ANSWERED

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let every call of an actor go through this network."""
        enter, leave = Atomic.__enter__, Atomic.__exit__
        commit = connection._commit  # type: ignore[attr-defined]  # every backend has it

        def begin(atomic: Atomic) -> None:
            if not connection.in_atomic_block:
                self._request()
            enter(atomic)

        def end(atomic: Atomic, *error: Any) -> None:
            # Hooks that run on commit make calls of their own.
            fate = self._fate
            try:
                leave(atomic, *error)
            finally:
                if not connection.in_atomic_block:
                    self._answer(fate)

        monkeypatch.setattr(Atomic, "__enter__", begin)
        monkeypatch.setattr(Atomic, "__exit__", end)
        monkeypatch.setattr(connection, "_commit", lambda: self._commit(commit))

    def statement(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Run a statement; outside of a transaction it is a call."""
        if connection.in_atomic_block or sql.startswith("BEGIN"):
            return execute(sql, params, many, context)
        self._request()
        result = execute(sql, params, many, context)
        if self._fate in ANSWERLESS:
            raise _lost()
        return result

    def _request(self) -> None:
        """Send a call; no other actor runs from its arrival to its end."""
        self._fate = Fate.ANSWERED
        if self._scheduler.closing:
            raise Crashed
        actor = self._scheduler.current
        if actor is None:
            return
        fate = self._draw()
        self._trace(f"{_caller()} {'' if fate is Fate.ANSWERED else fate}".rstrip())
        self._befall(actor, fate, Fate.CRASH_BEFORE, Fate.FREEZE_BEFORE)
        self._scheduler.sleep(self._delay())
        if self.weather.outage or fate is Fate.NOT_DELIVERED:
            raise OperationalError("could not connect to the database")
        if fate is Fate.BUSY:
            raise OperationalError("database is locked")
        self._fate = fate

    def _commit(self, commit: Callable[[], None]) -> None:
        if self._fate is Fate.ROLLED_BACK:
            raise _lost()
        commit()
        if self._scheduler.current is not None:
            self._committed()
        if self._fate is Fate.ANSWER_LOST:
            raise _lost()

    def _answer(self, fate: Fate) -> None:
        actor = self._scheduler.current
        if actor is None or self._scheduler.closing:
            return
        self._befall(actor, fate, Fate.CRASH_AFTER, Fate.FREEZE_AFTER)
        self._scheduler.sleep(self._delay())

    def _befall(self, actor: Actor, fate: Fate, crash: Fate, freeze: Fate) -> None:
        if fate is crash:
            self._crash(actor.process)
        elif fate is freeze:
            self._freeze(actor.process)

    def _draw(self) -> Fate:
        if not self.weather.storm:
            return Fate.ANSWERED
        dice = self._rng.uniform(0, 100)
        for fate, percent in IN_A_STORM.items():
            dice -= percent
            if dice < 0:
                return fate
        return Fate.ANSWERED

    def _delay(self) -> float:
        """Return how long one way takes: mostly milliseconds, sometimes a large part of a lease."""
        dice = self._rng.random()
        if self.weather.slow or (self.weather.storm and dice < 0.01):
            return self._rng.uniform(0.1, 2.5)
        return self._rng.uniform(0.001, 0.005 if dice < 0.9 else 0.1)


def _lost() -> OperationalError:
    return OperationalError("the connection was lost")


def _caller() -> str:
    """Return the name of the product's function that makes the call."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("jobs.") and module != "jobs.engine.transactions":
            return f"{module.removeprefix('jobs.')}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "somebody"
