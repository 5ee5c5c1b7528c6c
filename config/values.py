"""Reads the numbers and web addresses among the environment's variables."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from interfaces.moments import least_of, most_of

# Longer numbers are cut to this: they are too large anyway, and Python refuses thousands of digits.
MOST_DIGITS = 20
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class EnvironmentInvalid(ImproperlyConfigured):
    """An environment variable has a value this service cannot use."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"environment variable {name}: {reason}")
        self.name = name


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


def parse_web_address(text: str) -> str:
    """Return the address without its last slash.

    Plain http is allowed only for this machine, because tokens are sent to the address.

    Raises:
        ValueError: the address cannot be used.
    """
    address = text.rstrip("/")
    parts = urlsplit(address)
    if address and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must start with https:// and name a host")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_NAMES:
        raise ValueError("must start with https://, save for an address of loopback")
    return address
