"""Users whose keys are no numbers."""

from __future__ import annotations

from uuid import uuid4

from django.contrib.auth.models import AbstractUser
from django.db import models


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
