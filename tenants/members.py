"""Adds members to firms and sets their roles, with an entry in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenants.audit import Actor, record_operation
from tenants.models import Firm, Membership, Role
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


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
