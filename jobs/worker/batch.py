"""Some claims that one thread runs one after the other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from math import inf

from jobs.engine.claim import Claim


class Chunk:
    """What is left of it can be taken away from its thread at any moment."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = claims
        # When the job that runs now began, by the monotonic clock; never, before the first.
        self.begun_at = inf
        self._left = deque(claims)

    def next(self) -> Claim | None:
        """Remove and return the next claim; None when none is left."""
        self.begun_at = time.monotonic()
        try:
            return self._left.popleft()
        except IndexError:
            return None

    def take_rest(self) -> list[Claim]:
        """Remove and return what its thread has not begun."""
        rest: list[Claim] = []
        with suppress(IndexError):
            while True:
                rest.append(self._left.popleft())
        return rest
