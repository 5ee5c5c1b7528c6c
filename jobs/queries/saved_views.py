"""The saved views that a person sees above a list."""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q

from jobs.models import SavedView
from jobs.states import Listing
from tenants.models import SYSTEM_SLUG
from tenants.scope import require_scope

MOST_SHOWN = 60


def views_of(user: AbstractBaseUser, listing: Listing) -> list[SavedView]:
    """Return the person's views of a list, and those that members of their firms share, by name.

    A person who sees every firm gets the views that platform staff shares: the system firm's.
    """
    shared = Q(shared=True)
    if require_scope("saved views").firm_ids is None:
        shared &= Q(firm__slug=SYSTEM_SLUG)
    views = SavedView.objects.filter(Q(user_id=user.pk) | shared, listing=listing)
    return list(views.select_related("user", "firm").order_by("name", "pk")[:MOST_SHOWN])
