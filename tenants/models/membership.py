"""A firm's members and their roles."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from tenants.models.base import TenantModel


class Role(models.TextChoices):
    """What a member may do, least first."""

    VIEWER = "viewer", "Viewer"
    OPERATOR = "operator", "Operator"
    DEVELOPER = "developer", "Developer"
    ADMIN = "admin", "Admin"

    def includes(self, other: Role) -> bool:
        """Say whether this role may do all that `other` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


class Membership(TenantModel):
    """One user's role in one firm."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=Role.choices)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "user"], name="membership_once_per_firm"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"
