"""Groups whose members a schedule enqueues jobs for, such as mailboxes; apps register them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar


@dataclass(frozen=True)
class Member:
    """A member of a group. `key` is unique in the group; `payload` is added to the schedule's.

    `idempotency_key` replaces the slot's own, so that the job coalesces with others of that key.
    """

    firm_id: int
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(frozen=True)
class GroupRequest:
    """Whose members are asked for (`firm_id` None: every firm's), and the job to be enqueued."""

    firm_id: int | None
    job_type: str
    payload: Mapping[str, Any]


Resolver = Callable[[GroupRequest], Iterable[Member]]
R = TypeVar("R", bound=Resolver)


@dataclass(frozen=True)
class Group:
    """A registered group; `fields` are the payload fields its members add, `member` is what one is called."""

    name: str
    resolver: Resolver
    fields: frozenset[str]
    member: str


_groups: dict[str, Group] = {}


def schedule_group(name: str, *, fields: Iterable[str] = (), member: str = "") -> Callable[[R], R]:
    """Register the decorated function as the group `name`; it yields the members.

    `member` is what pages call one of them, where the name does not say it.
    It is called in a scope of all firms. Read members in pages: a group may be large. The caller
    leaves out members of inactive firms.

    Raises:
        ValueError: another function has this name.
    """

    def register(resolver: R) -> R:
        known = _groups.get(name)
        if known is not None and known.resolver.__module__ != resolver.__module__:
            raise ValueError(f"schedule group {name} is registered twice")
        _groups[name] = Group(name, resolver, frozenset(fields), member or name)
        return resolver

    return register


def find_group(name: str) -> Group | None:
    """Return the group of this name, None when this code does not know it."""
    return _groups.get(name)


def group_names() -> list[str]:
    """Return the names of all groups."""
    return sorted(_groups)
