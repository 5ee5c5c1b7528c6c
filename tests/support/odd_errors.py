"""Exceptions that are hard to describe: reading them raises, misleads, or gives odd texts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from jobs.errors import Cancel, Fatal, Retryable, Snooze

ODD: Any = 5
EAST = timezone(timedelta(hours=14))


class MuteError(Exception):
    """Raises an error when its text is read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class ExitingError(Exception):
    """Exits the interpreter when its text is read."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class RecursiveError(Exception):
    """Recurses without end when its text is read."""

    def __str__(self) -> str:
        return str(self)


class NumberError(Exception):
    """Returns a number as its text."""

    def __str__(self) -> str:
        return ODD


class HiddenError(Exception):
    """Raises an error when its traceback, its cause or its class is read."""

    def _hide(self) -> Any:
        raise KeyboardInterrupt

    __traceback__ = property(_hide)
    __cause__ = property(_hide)
    __class__ = property(_hide)


class _Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__name__", "__qualname__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class NamelessError(Exception, metaclass=_Nameless):
    """Raises an error when its name is read."""


class OddNameError(Exception):
    """Has a name that no database can store."""


OddNameError.__qualname__ = "Odd\x00\ud800" + "x" * 500
OddNameError.__module__ = ODD


class OddEqualityError(Exception):
    """Raises an error when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None


class MuteCancel(Cancel):
    """Cancels, with a reason that cannot be read."""

    __str__ = MuteError.__str__


class MuteFatal(Fatal):
    """Fails for good, with a reason that cannot be read."""

    __str__ = ExitingError.__str__


class EmptyRetryable(Retryable):
    """Has none of the attributes that its base class sets."""

    def __init__(self) -> None:
        pass


class EmptySnooze(Snooze):
    """Has none of the attributes that its base class sets."""

    def __init__(self) -> None:
        pass


def _late(retry_after: Any) -> Retryable:
    error = Retryable("later")
    error.retry_after = retry_after
    return error


def _sleeper(until: Any, seconds: Any) -> Snooze:
    error = Snooze(seconds=1)
    error.until, error.seconds = until, seconds
    return error


def _chained() -> Exception:
    error: Exception = ValueError("the first")
    for number in range(2_000):
        nearest = ValueError(f"number {number}")
        nearest.__cause__ = error
        error = nearest
    return error


def _nested() -> Exception:
    error: Exception = ValueError("the innermost")
    for _ in range(2_000):
        error = ExceptionGroup("outer", [error])
    return error


def _own_cause() -> Exception:
    error = ValueError("round and round")
    error.__cause__ = error.__context__ = error
    return error


def _noted() -> Exception:
    error = ValueError("noted")
    error.__notes__ = ODD
    return error


ODD_ERRORS: dict[str, Any] = {
    "mute": MuteError,
    "exiting": ExitingError,
    "recursive": RecursiveError,
    "a number": NumberError,
    "hidden": HiddenError,
    "nameless": NamelessError,
    "odd name": OddNameError,
    "odd equality": OddEqualityError,
    "mute cancel": MuteCancel,
    "mute fatal": MuteFatal,
    "empty retryable": EmptyRetryable,
    "empty snooze": EmptySnooze,
    "retry after a word": lambda: _late("soon"),
    "retry after nan": lambda: _late(float("nan")),
    "retry after an age": lambda: _late(1e300),
    "snooze to a word": lambda: _sleeper("tomorrow", None),
    "snooze to no zone": lambda: _sleeper(datetime(2999, 1, 1), None),  # noqa: DTZ001 - that is odd
    "snooze for a word": lambda: _sleeper(None, "long"),
    "snooze to before all time": lambda: Snooze(until=datetime.min.replace(tzinfo=EAST)),
    "snooze for nan": lambda: _sleeper(None, float("nan")),
    "half a character": lambda: ValueError("\ud800 \x00"),
    "huge": lambda: ValueError("x" * 10**7),
    "many arguments": lambda: ValueError(*range(10**5)),
    "chained": _chained,
    "nested": _nested,
    "its own cause": _own_cause,
    "odd notes": _noted,
    "a stop": StopIteration,
    "an asynchronous stop": StopAsyncIteration,
    "an end": GeneratorExit,
    "base": BaseException,
}


def odd_error(name: str) -> BaseException:
    """Return a new exception of this name."""
    error: BaseException = ODD_ERRORS[name]()
    return error
