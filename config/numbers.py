"""Reads the numbers among the environment's variables."""

from __future__ import annotations

from config.errors import EnvironmentInvalid
from interfaces.moments import least_of, most_of

# Longer numbers are cut to this: they are too large anyway, and Python refuses thousands of digits.
MOST_DIGITS = 20


def whole_number(name: str, raw: str, least: float) -> int:
    """Return the variable's whole number.

    Raises:
        EnvironmentInvalid: the value is no whole number, or out of range.
    """
    least = max(least, least_of(name))
    if not (raw.isascii() and raw.isdigit() and int(raw[:MOST_DIGITS]) >= least):
        raise EnvironmentInvalid(name, f"must be a whole number from {least}; it is {raw!r}")
    return int(_not_beyond(name, raw, int(raw[:MOST_DIGITS])))


def number_of_use(name: str, raw: str) -> float:
    """Return the variable's number.

    Raises:
        EnvironmentInvalid: the value is no number, or out of range.
    """
    try:
        value = float(raw)
    except ValueError:
        raise EnvironmentInvalid(name, f"must be a number; it is {raw!r}") from None
    if not value > 0:
        raise EnvironmentInvalid(name, f"must be above zero; it is {raw!r}")
    if value < least_of(name):
        raise EnvironmentInvalid(name, f"must be at least {least_of(name):g}; it is {raw!r}")
    return _not_beyond(name, raw, value)


def _not_beyond(name: str, raw: str, value: float) -> float:
    if value > most_of(name):
        raise EnvironmentInvalid(name, f"must be at most {most_of(name):,}; it is {raw!r}")
    return value
