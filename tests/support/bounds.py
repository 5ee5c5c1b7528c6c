"""Lifts the bounds on requests where a test or the soak asks more often than anybody may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tenants.throttles import CallerThrottle, FirmThrottle


@contextmanager
def unbounded() -> Iterator[None]:
    """Let callers and firms ask as often as they like, inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        for throttle in (CallerThrottle, FirmThrottle):
            patch.setattr(throttle, "per_minute", 1_000_000)
        yield
