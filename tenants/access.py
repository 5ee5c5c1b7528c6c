"""Which firms a user may see, and in which role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenants.models import Membership
from tenants.scope import all_firms

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser


def firm_ids_of(user: AbstractBaseUser | AnonymousUser) -> frozenset[int] | None:
    """Return the ids of the user's firms; None for platform staff, who see every firm."""
    if getattr(user, "is_superuser", False):
        return None
    with all_firms("find out which firms a user belongs to"):
        members = Membership.objects.filter(user_id=user.pk, firm__active=True)
        return frozenset(members.values_list("firm_id", flat=True))
