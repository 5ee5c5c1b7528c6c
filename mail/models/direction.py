"""Directions that people write for the model, for the mail in a scope."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from mail.models.scoped import ScopedRow, scope_constraint

MAX_DIRECTION_LENGTH = 2000


class DirectionKind(models.TextChoices):
    """How binding a text is: a direction outweighs a rule for the model."""

    DIRECTION = "direction", "Direction"
    LLM_RULE = "llm_rule", "Rule for the model"


class Direction(ScopedRow):
    """One direction, or one rule for the model."""

    kind = models.CharField(max_length=10, choices=DirectionKind, default=DirectionKind.DIRECTION)
    text = models.CharField(max_length=MAX_DIRECTION_LENGTH)
    enabled = models.BooleanField(default=True)
    enabled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="Who wrote it as it is: where they may not read the mail, nothing is done by it.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            scope_constraint("direction_scope_named"),
            models.CheckConstraint(
                condition=Q(kind__in=DirectionKind.values), name="direction_kind_known"
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "id"], condition=Q(enabled=True), name="direction_enabled")
        ]

    def __str__(self) -> str:
        return self.text[:80]
