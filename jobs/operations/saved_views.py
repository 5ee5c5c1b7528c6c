"""Saves and deletes people's views of the admin's lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser

from jobs.errors import Fault, FilterInvalid
from jobs.models import SavedView
from jobs.operations.operation import get_for_update, operation
from jobs.states import Listing
from tenants.models import Firm

# The most views of one person for one list.
MOST = 30


@operation
def save_view(
    name: str,
    parameters: Mapping[str, str],
    *,
    listing: Listing,
    firm: Firm,
    user: AbstractBaseUser,
    shared: bool = False,
) -> SavedView:
    """Save the parameters of a list under a name; it replaces the person's view with this name.

    Raises:
        FilterInvalid: there is no name, nothing to save, or the person has `MOST` views.
        TenantMismatch: the firm is out of scope.
    """
    name = name.strip()
    if not name:
        raise FilterInvalid([Fault("name", "required", "give the view a name")])
    if not parameters:
        raise FilterInvalid([Fault("parameters", "required", "the list has no filter to save")])
    mine = SavedView.objects.filter(user_id=user.pk, listing=listing)
    view = mine.filter(firm_id=firm.pk, name=name).first()
    if view is None:
        if mine.count() >= MOST:
            message = f"you already have {MOST} views of this list: delete one first"
            raise FilterInvalid([Fault("name", "too_many", message)])
        view = SavedView(firm=firm, user_id=user.pk, listing=listing, name=name)
    view.parameters, view.shared = dict(parameters), shared
    view.save()
    return view


@operation
def delete_view(view: SavedView | UUID | str) -> Any:
    """Delete a view; return it as it was.

    Raises:
        UnknownJob: no such view in scope.
    """
    row = get_for_update(SavedView, view)
    SavedView.objects.filter(pk=row.pk).delete()
    return row
