"""The fields of the project's user model, whatever it is."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Model, QuerySet

from tenants.errors import AmbiguousUser


def sign_in_field() -> str:
    """Return the name of the field with which users sign in."""
    return str(get_user_model().USERNAME_FIELD)


def email_field() -> str | None:
    """Return the name of the field with the users' addresses, None where there is none."""
    model = get_user_model()
    name = model.get_email_field_name()
    return name if name in {field.name for field in model._meta.fields} else None


def find_users(name: str) -> QuerySet[Any]:
    """Return the users who sign in with this name, in any case."""
    users: QuerySet[Any] = get_user_model()._default_manager.all()
    return users.filter(**{f"{sign_in_field()}__iexact": name})


def find_user(key: str) -> Any | None:
    """Return the user who signs in with this name, else the one with this address; None: nobody.

    Raises:
        AmbiguousUser: it could be any of several users.
    """
    found = list(find_users(key))
    # Nobody is meant by an empty key; any number of users have no address.
    if key and not found and (field := email_field()) is not None:
        found = list(get_user_model()._default_manager.filter(**{f"{field}__iexact": key}))
    # Names may differ in upper and lower case alone.
    exact = [user for user in found if user.get_username() == key]
    if len(exact or found) > 1:
        raise AmbiguousUser(key, sorted(user.get_username() for user in found))
    return next(iter(exact or found), None)


def is_stored(row: object) -> bool:
    """Say whether this is a row that was read or saved; a new one may have an id already."""
    return (
        isinstance(row, Model) and row.pk is not None and not row._state.adding  # noqa: SLF001 - Django documents it
    )


def is_user(value: object) -> bool:
    """Say whether the value is a row of the project's user model, or of one that extends it."""
    model = get_user_model()
    # By its name, too, because a migration has a class of its own for the model.
    return isinstance(value, model) or (
        isinstance(value, Model) and value._meta.label == model._meta.label
    )
