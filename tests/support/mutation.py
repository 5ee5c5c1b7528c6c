"""Breaks the engine in one place at a time, to see whether tests notice."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from jobs.engine import end_attempts, settle


class Seen(list[str]):
    """Which faults of a mutant were reached."""


Fault = Callable[[pytest.MonkeyPatch, Seen], None]

FENCE = " AND j.lease_token = r.token"

# The functions with which a module of the engine runs its statements.
RUNNERS = ("fetch", "run", "run_alone", "run_bypassing", "fetch_pipelined")


@dataclass(frozen=True)
class Rewrite:
    """Replaces a text in every statement of one module of the engine."""

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
    """Lets a function of one module do nothing."""

    module: ModuleType
    name: str

    def __call__(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        def nothing(*_: object) -> None:
            seen.append(self.name)

        assert hasattr(self.module, self.name)
        monkeypatch.setattr(self.module, self.name, nothing)


_ending: ContextVar[ModuleType | None] = ContextVar("ending", default=None)


def _replace_for(
    caller: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, instead: Callable[..., Any]
) -> None:
    """Call `instead(original, …)` for a function of `end_attempts` when `caller` ends attempts."""
    end, original = end_attempts.end_attempts, getattr(end_attempts, name)

    def ending(*args: Any, **options: Any) -> Any:
        token = _ending.set(caller)
        try:
            return end(*args, **options)
        finally:
            _ending.reset(token)

    def replaced(*args: Any, **options: Any) -> Any:
        if _ending.get() is caller:
            return instead(original, *args, **options)
        return original(*args, **options)

    monkeypatch.setattr(caller, "end_attempts", ending)
    monkeypatch.setattr(end_attempts, name, replaced)


@dataclass(frozen=True)
class RewriteEnd:
    """Replaces a text in the statement that ends attempts, when one module runs it."""

    caller: ModuleType
    old: str
    new: str = ""

    def __call__(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        def fetch(original: Callable[..., Any], sql: str, *rest: Any, **options: Any) -> Any:
            if self.old in sql:
                seen.append(self.old)
            return original(sql.replace(self.old, self.new), *rest, **options)

        _replace_for(self.caller, monkeypatch, "fetch", fetch)


@dataclass(frozen=True)
class WithoutInEnd:
    """Lets a function of the end of attempts do nothing, when one module ends them."""

    caller: ModuleType
    name: str

    def __call__(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        def nothing(*_: object, **__: object) -> None:
            seen.append(self.name)

        _replace_for(self.caller, monkeypatch, self.name, nothing)


def settle_without_fence(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Write outcomes without comparing tokens: plain completions and all others."""
    RewriteEnd(settle, FENCE)(monkeypatch, seen)
    Rewrite(settle, FENCE)(monkeypatch, seen)
