"""Groups that schedules reach member by member, such as mailboxes: registered by other apps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar


@dataclass(frozen=True)
class Member:
    """One of a group. `key` tells it from the others; `payload` is added to the schedule's.

    `idempotency_key` replaces the slot's own, for jobs that coalesce with those others ask for.
    """

    firm_id: int
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Reach:
    """Whose members a run is for (`firm_id` None: every firm's), and what it will enqueue."""

    firm_id: int | None
    job_type: str
    payload: Mapping[str, Any]


Resolver = Callable[[Reach], Iterable[Member]]
R = TypeVar("R", bound=Resolver)


@dataclass(frozen=True)
class Group:
    """A registered group; `fields` are the payload fields its members bring."""

    name: str
    resolver: Resolver
    fields: frozenset[str]


_groups: dict[str, Group] = {}


def schedule_target(name: str, *, fields: Iterable[str] = ()) -> Callable[[R], R]:
    """Register the decorated function as the group `name` that schedules may name.

    It is called inside a scope of all firms and yields members. Read them in pages: a group may
    be large. Members of inactive firms are left out by the caller.

    Raises:
        ValueError: another function has this name.
    """

    def register(resolver: R) -> R:
        known = _groups.get(name)
        if known is not None and known.resolver.__module__ != resolver.__module__:
            raise ValueError(f"schedule target {name} is registered twice")
        _groups[name] = Group(name, resolver, frozenset(fields))
        return resolver

    return register


def find_group(name: str) -> Group | None:
    """Return the group of this name, None when this code does not know it."""
    return _groups.get(name)


def group_names() -> list[str]:
    """Return the names of all groups."""
    return sorted(_groups)
