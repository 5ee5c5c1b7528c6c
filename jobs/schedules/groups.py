"""Groups whose members a schedule enqueues jobs for, such as mailboxes; apps register them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar


@dataclass(frozen=True)
class Member:
    """A member of a group. `key` is unique in the group; `payload` is added to the schedule's.

    `idempotency_key` replaces the slot's own, so that no second live job with that key is enqueued.
    """

    firm_id: int
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(frozen=True)
class GroupRequest:
    """The firm whose members are wanted (`firm_id` None: every firm), and the job to enqueue."""

    firm_id: int | None
    job_type: str
    payload: Mapping[str, Any]


Resolver = Callable[[GroupRequest], Iterable[Member]]
R = TypeVar("R", bound=Resolver)


@dataclass(frozen=True)
class Group:
    """A registered group; `fields` are the payload fields its members add, `member` names one."""

    name: str
    resolver: Resolver
    fields: frozenset[str]
    member: str


_groups: dict[str, Group] = {}


def schedule_group(name: str, *, fields: Iterable[str] = (), member: str = "") -> Callable[[R], R]:
    """Register the decorated function as the group `name`; it yields the members.

    `member` is the word for one of them on pages, by default the group's name. The function is
    called in a scope of all firms. It should read members in pages, because a group may be large.
    The caller leaves out members of inactive firms.

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
    """Return the group of this name, None if this code does not know it."""
    return _groups.get(name)


def group_names() -> list[str]:
    """Return the names of all groups."""
    return sorted(_groups)
