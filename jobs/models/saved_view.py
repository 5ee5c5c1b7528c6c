"""`SavedView`: filters of one of the admin's lists under a name."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from jobs.models.base import QueueModel, choices
from jobs.states import Listing

MAX_VIEW_NAME_LENGTH = 60


class SavedView(QueueModel):
    """Filters that a person saved under a name; those of platform staff are the system firm's."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    listing = models.CharField(max_length=20, choices=choices(Listing))
    name = models.CharField(max_length=MAX_VIEW_NAME_LENGTH)
    parameters = StoredJSONField(help_text="The list's query parameters, each with its value.")
    shared = models.BooleanField(
        default=False, db_default=False, help_text="Whether the firm's other members see it."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "listing", "user", "name"], name="saved_view_once"
            ),
            models.CheckConstraint(
                condition=Q(listing__in=list(Listing)), name="saved_view_listing_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name
