"""User models whose keys are no integers."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import AbstractUser, BaseUserManager
from django.db import models


class EmailManager(BaseUserManager["EmailUser"]):
    """Creates users, as Django's documentation shows it."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> EmailUser:
        """Create a user."""
        user = EmailUser(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save()
        return user


class EmailUser(AbstractUser):
    """A user without a name, who signs in with an e-mail address."""

    username = None  # type: ignore[assignment]  # as Django documents it
    email = models.EmailField(unique=True)
    groups = None
    user_permissions = None
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = ()
    objects = EmailManager()  # type: ignore[misc,assignment]  # as Django documents it

    class Meta:
        app_label = "keyed_users"


class UuidUser(AbstractUser):
    """A user whose key is a UUID."""

    id = models.UUIDField(primary_key=True, default=uuid4)
    groups = None
    user_permissions = None

    class Meta:
        app_label = "keyed_users"


class TextUser(AbstractUser):
    """A user whose key is a text."""

    id = models.CharField(primary_key=True, max_length=50)
    groups = None
    user_permissions = None

    class Meta:
        app_label = "keyed_users"
