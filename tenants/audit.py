"""Writes the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from interfaces.correlation import current_correlation_id
from interfaces.stored_json import presentable
from tenants.models import AuditEntry
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

Door = Literal["admin", "api", "cli", "service"]


@dataclass(frozen=True)
class Actor:
    """Who acts, and through which door; `user` None for the command line and the service.

    `account` is the operating system's name for who is at the command line.
    """

    door: Door
    user: AbstractBaseUser | None = None
    account: str = ""

    @property
    def name(self) -> str:
        """How the log names the actor."""
        if self.user is not None:
            return self.user.get_username()
        return f"{self.door}:{self.account}" if self.account else self.door

    @property
    def user_id(self) -> int | None:
        """The user's id, None where nobody is signed in."""
        return None if self.user is None else int(self.user.pk)


SERVICE = Actor("service")


def as_actor(by: Actor | AbstractBaseUser | None) -> Actor:
    """Return the actor; a bare user acts through the service's own code, None is the service."""
    if by is None:
        return SERVICE
    return by if isinstance(by, Actor) else Actor("service", by)


def record_operation(
    actor: Actor,
    act: str,
    *,
    firm_id: int,
    target: tuple[str, object],
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one entry, in the transaction of the act itself; `target` is (type, id).

    `before` and `after` hold what changed, without secrets; what no page could show is cut off.
    """
    with firm_scope(firm_id):
        AuditEntry.objects.create(
            firm_id=firm_id,
            actor_id=actor.user_id,
            actor_name=actor.name,
            door=actor.door,
            act=act,
            target_type=target[0],
            target_id=str(target[1]),
            reason=reason,
            before=presentable(before or {}),
            after=presentable(after or {}),
            correlation_id=current_correlation_id() or "",
        )
