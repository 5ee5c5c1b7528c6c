"""Firms, their members with roles, and the members' API keys; counted requests."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.errors import UnknownFirm
from tenants.models.base import TenantModel

SYSTEM_SLUG = "system"
SYSTEM_NAME = "System"


class FirmManager(models.Manager["Firm"]):
    """Looks up firms by the names people use."""

    def get_by_slug(self, slug: str) -> Firm:
        """Return the firm.

        Raises:
            UnknownFirm: no firm has this slug.
        """
        firm = self.filter(slug=slug).first()
        if firm is None:
            raise UnknownFirm(f"there is no firm with the slug {slug!r}")
        return firm

    def system(self) -> Firm:
        """Return the reserved firm that owns jobs of no firm.

        Migrations create it. A `flush`, as after each TransactionTestCase, deletes it; then it is
        created here.
        """
        return self.get_or_create(slug=SYSTEM_SLUG, defaults={"name": SYSTEM_NAME})[0]


class Firm(models.Model):
    """A tenant. Its own table is not firm-owned: row level security refers to it."""

    name = models.CharField(max_length=200)
    slug = models.SlugField(max_length=50, unique=True)
    active = models.BooleanField(
        default=True,
        help_text="While a firm is inactive, its jobs and schedules wait, and its members cannot "
        "use the service.",
    )
    weight = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.01)],
        help_text="The firm's share of the workers: weight 2 gets twice as many jobs as weight 1.",
    )
    running_cap = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most jobs running at once; empty means no limit."
    )
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days finished jobs are kept; empty means JOB_RETENTION_DAYS.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = FirmManager()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(weight__gt=0), name="firm_weight_positive")
        ]
        indexes = [
            # The few firms with a limit: every claim checks whether there is one.
            models.Index(
                fields=["id"],
                condition=Q(running_cap__isnull=False) | Q(active=False),
                name="firm_limited",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_system(self) -> bool:
        """Whether this is the reserved firm, whose maintenance jobs serve every firm."""
        return self.slug == SYSTEM_SLUG


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
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class ApiKey(TenantModel):
    """A user's key to one firm. Only its hash is stored."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys"
    )
    role = models.CharField(
        max_length=10,
        choices=Role.choices,
        help_text="What the key may do; never more than its user's membership allows.",
    )
    prefix = models.CharField(max_length=12, help_text="The part of the key that identifies it.")
    key_hash = models.CharField(max_length=64, help_text="SHA-256 of the whole key.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Empty means that it never expires."
    )
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="Accurate to the minute.")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="api_key_role_known")
        ]
        indexes = [models.Index(fields=["prefix"], name="api_key_prefix")]

    def __str__(self) -> str:
        return self.prefix


class RequestCount(models.Model):
    """One caller's requests in one minute; a new minute overwrites the one before."""

    caller = models.CharField(max_length=80, primary_key=True)
    minute = models.BigIntegerField(help_text="Minutes since 1970, by the database's clock.")
    asked = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.caller}: {self.asked}"
