"""The fields of the project's user model, whatever it is."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet


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
