"""The firm: the tenant everything else belongs to."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models.functions import Now

from tenants.errors import UnknownFirm

SYSTEM_SLUG = "system"


class FirmManager(models.Manager["Firm"]):
    """Looks up firms by the names people use."""

    def get_by_slug(self, slug: str) -> Firm:
        """Return the firm.

        Raises:
            UnknownFirm: no firm has this slug.
        """
        firm = self.filter(slug=slug).first()
        if firm is None:
            raise UnknownFirm(f"no firm has the slug {slug!r}")
        return firm

    def system(self) -> Firm:
        """Return the reserved firm that owns jobs of no firm; migrations create it."""
        return self.get_by_slug(SYSTEM_SLUG)


class Firm(models.Model):
    """A tenant. Its own table is not firm-owned: row level security refers to it."""

    name = models.CharField(max_length=200)
    slug = models.SlugField(max_length=50, unique=True)
    active = models.BooleanField(
        default=True, help_text="An inactive firm's jobs and schedules are parked."
    )
    weight = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.01)],
        help_text="Share of the workers' turns, relative to other firms.",
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
            models.CheckConstraint(condition=models.Q(weight__gt=0), name="firm_weight_positive")
        ]
        indexes = [
            # The few firms with a limit: every claim checks whether there is one.
            models.Index(
                fields=["id"],
                condition=models.Q(running_cap__isnull=False) | models.Q(active=False),
                name="firm_limited",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_system(self) -> bool:
        """Whether this is the reserved firm, whose maintenance jobs serve every firm."""
        return self.slug == SYSTEM_SLUG
