"""Writes the audit log, and hides in its entries what is not for a reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from interfaces.correlation import current_correlation_id
from interfaces.redaction import hide_secrets
from interfaces.stored_json import presentable
from tenants.models import AuditEntry
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

Door = Literal["admin", "api", "cli", "service", "email", "discord"]

# Receives entries and the reader's id; returns the ids of those whose values are not for them.
PrivateEntries = Callable[[Sequence[AuditEntry], Any], Collection[UUID]]

_registered: list[PrivateEntries] = []


@dataclass(frozen=True)
class Actor:
    """Who does an operation, and through which door.

    `user` is None for the command line and the service; `account` is the operating system's user
    at the command line.
    """

    door: Door
    user: AbstractBaseUser | None = None
    account: str = ""

    @property
    def name(self) -> str:
        """The actor's name in the audit log."""
        if self.user is not None:
            return self.user.get_username()
        return f"{self.door}:{self.account}" if self.account else self.door

    @property
    def user_id(self) -> Any:
        """The user's id, None without a user."""
        return None if self.user is None else self.user.pk


SERVICE = Actor("service")


def as_actor(by: Actor | AbstractBaseUser | None) -> Actor:
    """Return the actor: a user acts through the service's code, None is the service."""
    if by is None:
        return SERVICE
    return by if isinstance(by, Actor) else Actor("service", by)


def record_operation(
    actor: Actor,
    operation: str,
    *,
    firm_id: int,
    target: tuple[str, object],
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one entry, in the operation's own transaction; `target` is (type, id).

    `before` and `after` are the changed values; the caller leaves out secrets. Values that no page
    could show are replaced here, and secrets in the `reason` are removed.
    """
    change = Change(firm_id, target, before or {}, after or {})
    with firm_scope(firm_id):
        _entry(actor, operation, change, reason).save(force_insert=True)


@dataclass(frozen=True)
class Change:
    """What one operation changed; otherwise as the arguments of `record_operation`."""

    firm_id: int
    target: tuple[str, object]
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def record_operations(
    actor: Actor, operation: str, changes: Iterable[Change], *, reason: str = ""
) -> None:
    """Append an entry for each change, in one statement; their firms must be in scope."""
    AuditEntry.objects.bulk_create(_entry(actor, operation, one, reason) for one in changes)


def _entry(actor: Actor, operation: str, change: Change, reason: str) -> AuditEntry:
    return AuditEntry(
        firm_id=change.firm_id,
        actor_id=actor.user_id,
        actor_name=actor.name,
        door=actor.door,
        act=operation,
        target_type=change.target[0],
        target_id=str(change.target[1]),
        reason=hide_secrets(reason),
        before=presentable(change.before),
        after=presentable(change.after),
        correlation_id=current_correlation_id() or "",
    )


def register_private_entries(find: PrivateEntries) -> None:
    """Let `find` say which entries' `before` and `after` a reader may not see."""
    if find not in _registered:
        _registered.append(find)


def hide_private_values(entries: Sequence[AuditEntry], user_id: Any) -> None:
    """Make `before` and `after` None in the entries whose values are not for the reader.

    Must run in the reader's scope. The entries are not stored again.
    """
    private = {pk for find in _registered for pk in find(entries, user_id)}
    for entry in entries:
        if entry.pk in private:
            entry.before = entry.after = None
