"""Interrupts work between any two of its steps, which are SQL statements and requests to Gmail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection

from mail.gmail.simulator.transport import SimulatorHttp


class Killed(BaseException):
    """The worker dies here; `except Exception` does not catch this."""


def die() -> None:
    """End the work as `kill -9` ends a worker."""
    raise Killed


@dataclass
class Steps:
    """Counts the steps, and does something once before the step with the number `at`."""

    count: int = 0
    at: int | None = None
    act: Callable[[], object] = field(default=die)
    only_requests: bool = False
    acted: bool = False
    _acting: bool = False

    def __call__(self, *, request: bool = False) -> None:
        if self._acting or (self.only_requests and not request):
            return
        due = self.count == self.at
        self.count += 1
        if due:
            self.acted = self._acting = True
            self.act()
            self._acting = False


@contextmanager
def watched(steps: Steps) -> Iterator[Steps]:
    """Count these steps in the block: before each statement, before and after each request."""
    real = SimulatorHttp.request

    def request(http: SimulatorHttp, *args: Any, **kwargs: Any) -> Any:
        steps(request=True)
        answer = real(http, *args, **kwargs)
        steps(request=True)
        return answer

    def statement(execute: Callable[..., Any], *args: Any) -> Any:
        steps()
        return execute(*args)

    with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(statement):
        patch.setattr(SimulatorHttp, "request", request)
        yield steps
