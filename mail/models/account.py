"""The mailboxes Mailroom watches, and how far each has been read."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from tenants.models import TenantModel

MAX_ADDRESS_LENGTH = 320
MAX_ERROR_LENGTH = 500


class Provider(models.TextChoices):
    """Where a mailbox lives."""

    GMAIL = "gmail", "Gmail"


class SyncStatus(models.TextChoices):
    """Whether the stored cursor can be trusted."""

    NORMAL = "normal", "Normal"
    NEEDS_BACKFILL = "needs_backfill", "Needs backfill"
    BACKFILLING = "backfilling", "Backfilling"


class Connection(models.TextChoices):
    """Whether Gmail lets Mailroom in."""

    CONNECTED = "connected", "Connected"
    NEEDS_REAUTH = "needs_reauth", "Needs to be connected again"
    DISCONNECTED = "disconnected", "Disconnected"


class MailAccount(TenantModel):
    """A mailbox of a firm."""

    address = models.CharField(max_length=MAX_ADDRESS_LENGTH, help_text="Lower case.")
    display_name = models.CharField(max_length=200, blank=True, default="")
    provider = models.CharField(max_length=10, choices=Provider, default=Provider.GMAIL)
    history_cursor = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="Gmail history id up to which everything is in the queue; empty before the "
        "first sync. Never goes back.",
    )
    sync_status = models.CharField(
        max_length=20, choices=SyncStatus, default=SyncStatus.NEEDS_BACKFILL
    )
    sync_generation = models.BigIntegerField(
        default=0,
        help_text="Grows when a sync starts reading; names the one sync that may wait behind it.",
    )
    last_sync_at = models.DateTimeField(null=True, blank=True)
    active = models.BooleanField(
        default=True, help_text="The jobs of an inactive mailbox end canceled."
    )
    connection = models.CharField(
        max_length=20,
        choices=Connection,
        default=Connection.CONNECTED,
        db_default=Connection.CONNECTED,
        help_text="Only a connected mailbox is synced; the jobs of the others wait.",
    )
    held_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Gmail asked for fewer requests: no job of the mailbox calls it before this.",
    )
    last_error = models.CharField(
        max_length=MAX_ERROR_LENGTH, blank=True, default="", db_default=""
    )
    last_error_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "account"
        constraints = [
            models.UniqueConstraint(fields=["firm", "address"], name="account_address_once"),
            models.CheckConstraint(
                condition=models.Q(sync_status__in=SyncStatus.values),
                name="account_sync_status_known",
            ),
            models.CheckConstraint(
                condition=models.Q(connection__in=Connection.values),
                name="account_connection_known",
            ),
        ]

    def __str__(self) -> str:
        return self.address
