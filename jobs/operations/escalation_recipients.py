"""Who is told by e-mail of a dead letter that somebody should look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from tenants.models import Membership, Role
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

NOBODY_TOLD = (
    "Nobody could be told: neither the assignee, nor an admin of the firm, nor platform staff has "
    "an e-mail address."
)


def addresses_to_tell(firm_id: int, assignee: AbstractBaseUser | None) -> list[str]:
    """Return the assignee's address, else those of the firm's admins, else of platform staff."""
    address = getattr(assignee, "email", "") if assignee is not None else ""
    if address:
        return [address]
    with firm_scope(firm_id):
        admins = Membership.objects.filter(firm=firm_id, role=Role.ADMIN).values("user_id")
        members = _reachable().filter(pk__in=admins)
        return list(members.values_list("email", flat=True)) or list(
            _reachable().filter(is_superuser=True).values_list("email", flat=True)
        )


def _reachable() -> QuerySet[Any]:
    users: QuerySet[Any] = get_user_model().objects.filter(is_active=True)
    return users.exclude(email="").order_by("pk")
