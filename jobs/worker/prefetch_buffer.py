"""The line in which claims wait for a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from jobs.engine.claim import Claim
from jobs.engine.transition import is_quarantined


class Line:
    """Claims in the order they came; suspects stand apart. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._claims: deque[Claim] = deque()
        self._suspects: deque[Claim] = deque()

    def __len__(self) -> int:
        return len(self._claims) + len(self._suspects)

    def __iter__(self) -> Iterator[Claim]:
        yield from self._claims
        yield from self._suspects

    @property
    def suspects(self) -> int:
        """How many of them are suspects."""
        return len(self._suspects)

    @property
    def ordinary(self) -> int:
        """How many of them are not."""
        return len(self._claims)

    def extend(self, claims: Iterable[Claim]) -> None:
        """Add claims at the end."""
        for claim in claims:
            (self._suspects if is_quarantined(claim.deaths) else self._claims).append(claim)

    def put_back(self, claims: Sequence[Claim]) -> None:
        """Add claims that are no suspects at the front: they were there before."""
        self._claims.extendleft(reversed(claims))

    def take(self, limit: int) -> list[Claim]:
        """Remove and return the first that are no suspects."""
        return [self._claims.popleft() for _ in range(min(limit, len(self._claims)))]

    def take_suspect(self) -> Claim | None:
        """Remove and return the first suspect, None when there is none."""
        return self._suspects.popleft() if self._suspects else None

    def clear(self) -> list[Claim]:
        """Remove and return all."""
        claims = list(self)
        self._claims.clear()
        self._suspects.clear()
        return claims
