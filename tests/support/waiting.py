"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.02


def wait_until(condition: Callable[[], T], what: str, *, timeout: float = 90.0) -> T:
    """Return what `condition` returns, once that is true.

    Raises:
        AssertionError: the condition was not true within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(LOOK_SECONDS)
    return found
