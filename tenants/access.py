"""Which firms a user may see, and in which role; and who gives it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenants.audit import Actor, record_operation
from tenants.models import Firm, Membership, Role
from tenants.scope import all_firms, firm_scope, firms_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser


@dataclass(frozen=True)
class Access:
    """A user's role in each firm; None for platform staff, who may do everything in every firm."""

    roles: Mapping[int, Role] | None

    @property
    def is_platform_staff(self) -> bool:
        """Whether the user may do everything in every firm."""
        return self.roles is None

    @property
    def only_firm_id(self) -> int | None:
        """The visible firm, None where there are several."""
        return next(iter(self.roles)) if self.roles is not None and len(self.roles) == 1 else None

    def may(self, needed: Role, firm_id: int) -> bool:
        """Say whether the user has the role `needed` in the firm, or a higher one."""
        if self.roles is None:
            return True
        role = self.roles.get(firm_id)
        return role is not None and role.includes(needed)

    def firms(self, needed: Role) -> list[int] | None:
        """Return the firms in which the user has the role, or a higher one; None for every firm."""
        if self.roles is None:
            return None
        return [firm_id for firm_id, role in self.roles.items() if role.includes(needed)]

    def scope(self) -> AbstractContextManager[None]:
        """Return the tenant scope of these firms."""
        return all_firms("platform staff") if self.roles is None else firms_scope(self.roles)


def access_of(user: AbstractBaseUser | AnonymousUser) -> Access:
    """Return what the user may see and do: its memberships of active firms."""
    if getattr(user, "is_superuser", False):
        return Access(None)
    with all_firms("find out which firms a user belongs to"):
        members = Membership.objects.filter(user_id=user.pk, firm__active=True)
        return Access({firm: Role(role) for firm, role in members.values_list("firm_id", "role")})


def set_role(user: AbstractBaseUser, firm: Firm, role: Role, *, by: Actor) -> None:
    """Give the user this role in the firm; add the user as a member if needed."""
    with firm_scope(firm):
        # The lock keeps concurrent changes out between reading the old role and writing the new one.
        member, is_new = Membership.objects.select_for_update(no_key=True).get_or_create(
            firm=firm, user=user, defaults={"role": role}
        )
        old = _facts(user, member)
        if not is_new:
            if member.role == role:
                return
            member.role = role
            member.save(update_fields=["role"])
        record_operation(
            by,
            "member.add" if is_new else "member.role",
            firm_id=firm.pk,
            target=("membership", member.pk),
            before=None if is_new else old,
            after=_facts(user, member),
        )


def _facts(user: AbstractBaseUser, member: Membership) -> dict[str, str]:
    return {"user": user.get_username(), "role": str(member.role)}
