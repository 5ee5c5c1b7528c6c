"""`ApiKey`: a member's key to the API of one firm."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.models.base import TenantModel
from tenants.models.membership import Role


class ApiKey(TenantModel):
    """A user's key to one firm. Only its hash is stored."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys"
    )
    role = models.CharField(
        max_length=10,
        choices=Role.choices,
        help_text="What it may do; never more than the membership of its user allows.",
    )
    prefix = models.CharField(max_length=12, help_text="The part of the key that names it.")
    key_hash = models.CharField(max_length=64, help_text="SHA-256 of the whole key.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty means never.")
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="To the minute.")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="api_key_role_known")
        ]
        indexes = [models.Index(fields=["prefix"], name="api_key_prefix")]

    def __str__(self) -> str:
        return self.prefix
