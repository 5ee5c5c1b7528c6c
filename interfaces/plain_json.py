"""Encodes the values beyond JSON that callers pass and handlers return: ids, times, amounts."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, TypeGuard, get_type_hints
from uuid import UUID

from django.utils.duration import duration_iso_string

# The classes of JSON values, and those that `plain` encodes (a datetime is a date).
PLAIN = (str, int, float, list, tuple, dict, types.NoneType)
ENCODED = (UUID, Decimal, date, time, timedelta)


def plain(value: object) -> str:
    """Return the text that is stored for the value; a payload field of its type reads it back.

    Raises:
        TypeError: the value is of none of the classes in `ENCODED`.
    """
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_iso_string(value)
    raise TypeError(type(value).__name__)


def is_text(value: object) -> TypeGuard[str]:
    """Say whether the value is a real string; Django's lazy objects only pass `isinstance`."""
    return issubclass(type(value), str)


def unstorable_return(function: Callable[..., Any]) -> type | None:
    """Return the class that the function is declared to return, if no value of it can be stored.

    None does not mean that the value can be stored: most declarations do not tell, and many
    functions have none.
    """
    declared = _declared_return(function)
    if isinstance(declared, types.GenericAlias):
        declared = declared.__origin__
    if not isinstance(declared, type) or declared in (object, Any):
        return None
    try:
        # A storable class may be a subclass of the declared one: an abstract class or a protocol.
        storable = issubclass(declared, PLAIN + ENCODED) or any(
            issubclass(one, declared) for one in PLAIN + ENCODED
        )
    except TypeError:
        return None
    return None if storable else declared


def _declared_return(function: Callable[..., Any]) -> Any:
    declared = getattr(function, "__annotations__", {}).get("return")
    if not isinstance(declared, str):
        return declared
    try:
        return get_type_hints(function)["return"]
    except (NameError, TypeError, AttributeError, KeyError, SyntaxError):
        # Some annotation, perhaps of an argument, uses a name that exists only for type checkers.
        return getattr(sys.modules.get(function.__module__), declared, None)
