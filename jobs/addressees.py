"""Who is told by e-mail of a dead letter that somebody should look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenants.models import Membership, Role
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def addresses_to_tell(firm_id: int, assignee: AbstractBaseUser | None) -> list[str]:
    """Return the assignee's address, or those of the firm's admins when there is no assignee."""
    if assignee is not None:
        address = str(getattr(assignee, assignee.get_email_field_name(), ""))
        return [address] if address else []
    with firm_scope(firm_id):
        admins = Membership.objects.filter(firm=firm_id, role=Role.ADMIN, user__is_active=True)
        return list(admins.exclude(user__email="").values_list("user__email", flat=True))
