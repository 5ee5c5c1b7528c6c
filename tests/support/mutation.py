"""Breaks the engine on purpose, in one place at a time: whoever watches has to notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from jobs.engine import fast_complete, settle


class Seen(list[str]):
    """Which of a mutant's faults were met by what ran."""


Fault = Callable[[pytest.MonkeyPatch, Seen], None]

FENCE = " AND j.lease_token = r.token"

# What a module of the engine runs its statements with.
RUNNERS = ("fetch", "run", "fetch_alone", "run_alone", "fetch_in_one_trip")


@dataclass(frozen=True)
class Rewrite:
    """Another wording in every statement of one module of the engine."""

    module: ModuleType
    old: str
    new: str = ""

    def __call__(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        for name in RUNNERS:
            if hasattr(self.module, name):
                original = getattr(self.module, name)
                monkeypatch.setattr(self.module, name, self._rewritten(original, seen))

    def _rewritten(self, original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
        def statement(sql: str, *rest: Any, **options: Any) -> Any:
            if self.old in sql:
                seen.append(self.old)
            return original(sql.replace(self.old, self.new), *rest, **options)

        return statement


@dataclass(frozen=True)
class Without:
    """A function of one module does nothing."""

    module: ModuleType
    name: str

    def __call__(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        def nothing(*_: object) -> None:
            seen.append(self.name)

        assert hasattr(self.module, self.name)
        monkeypatch.setattr(self.module, self.name, nothing)


def settle_without_fence(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Write outcomes whoever holds the job by now, on the short way and on the long one."""
    for module in (settle, fast_complete):
        Rewrite(module, FENCE)(monkeypatch, seen)
