"""The mailboxes Mailroom watches, how far each was read, their tokens, and who may read them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from tenants.encryption import EncryptedTextField
from tenants.models import TenantModel

MAX_ADDRESS_LENGTH = 320
MAX_ERROR_LENGTH = 500


class Provider(models.TextChoices):
    """The service that a mailbox is at."""

    GMAIL = "gmail", "Gmail"


class SyncStatus(models.TextChoices):
    """Whether the stored cursor can be trusted."""

    NORMAL = "normal", "Normal"
    NEEDS_BACKFILL = "needs_backfill", "Needs backfill"
    BACKFILLING = "backfilling", "Backfilling"


class Connection(models.TextChoices):
    """Whether Gmail lets Mailroom use the mailbox."""

    CONNECTED = "connected", "Connected"
    NEEDS_REAUTH = "needs_reauth", "Needs to be connected again"
    DISCONNECTED = "disconnected", "Disconnected"


class Mode(models.TextChoices):
    """What Mailroom may do in the mailbox."""

    SUGGEST = "suggest", "Suggest only"
    ACTIVE = "active", "Active"


class PausedBy(models.TextChoices):
    """What has paused writing to an active mailbox."""

    NOTHING = "", "Not paused"
    SWITCH = "switch", "Paused by a person"
    LABEL = "label", "Paused by its Gmail label"


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
        default=True, help_text="The jobs of an inactive mailbox are canceled."
    )
    connection = models.CharField(
        max_length=20,
        choices=Connection,
        default=Connection.CONNECTED,
        db_default=Connection.CONNECTED,
        help_text="Only a connected mailbox is synced; the jobs of the others wait.",
    )
    mode = models.CharField(
        max_length=10,
        choices=Mode,
        default=Mode.SUGGEST,
        db_default=Mode.SUGGEST,
        help_text="Suggest only: decisions are stored and shown, and nothing is written to Gmail.",
    )
    paused_by = models.CharField(
        max_length=10,
        choices=PausedBy,
        blank=True,
        default=PausedBy.NOTHING,
        db_default=PausedBy.NOTHING,
        help_text="While it is paused nothing is written to Gmail; mail is read and judged as ever.",
    )
    active_since = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When it was made active: mail long before that is not labelled. Empty: all is.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="Who connected it: with those they grant it to, the only one to read its mail.",
    )
    shared = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Every member of the firm may read its mail: a local mailbox, nobody's own.",
    )
    aliases: models.JSONField[list[str], list[str]] = models.JSONField(
        default=list,
        blank=True,
        help_text="The owner's other addresses, in lower case, as Gmail lists them.",
    )
    identities: models.JSONField[list[dict[str, str]], list[dict[str, str]]] = models.JSONField(
        default=list,
        blank=True,
        help_text="[{address, name, signature}]: whom the owner writes as, the default first.",
    )
    send_delay_seconds = models.PositiveIntegerField(
        default=10,
        db_default=10,
        help_text="A message waits so long before it is sent: until then it can be canceled.",
    )
    follow_up_days = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        help_text="After so many days without an answer the owner is reminded of what they asked; "
        "empty: never.",
    )
    read_attachments = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Attachments of its new mail are read, unless READ_ATTACHMENTS is off for all "
        "mailboxes.",
    )
    watch_expires_at = models.DateTimeField(
        null=True, blank=True, help_text="When Gmail stops sending notifications."
    )
    watch_error = models.CharField(
        max_length=MAX_ERROR_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="Why the watch could not be renewed; empty once it is.",
    )
    delete_mail_at = models.DateTimeField(
        null=True, blank=True, help_text="When the mail of a disconnected mailbox is deleted."
    )
    held_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Gmail asked for fewer requests: no job of the mailbox calls Gmail before this "
        "time.",
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
            models.CheckConstraint(
                condition=models.Q(mode__in=Mode.values, paused_by__in=PausedBy.values),
                name="account_mode_known",
            ),
        ]
        # For notifications, which name only the address and not the firm.
        indexes = [models.Index(fields=["address"], name="account_address")]

    def __str__(self) -> str:
        return self.address


class GrantKind(models.TextChoices):
    """Why somebody may read the mail."""

    GRANTED = "granted", "Granted by the owner"
    BREAK_GLASS = "break_glass", "Break-glass"


class ContentGrant(TenantModel):
    """Lets one person read one mailbox's mail, for good or until it expires."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="content_grants"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20, choices=GrantKind)
    reason = models.TextField(blank=True, default="")
    granted_by = models.CharField(max_length=200, help_text="Who did it, as the audit log says.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty means never.")

    class Meta:
        verbose_name = "content grant"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "account", "user", "kind"], name="content_grant_once"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=GrantKind.values), name="content_grant_kind_known"
            ),
        ]
        indexes = [models.Index(fields=["firm", "user"], name="content_grant_of_user")]

    def __str__(self) -> str:
        return f"{self.user} ({self.kind})"


class MailCredential(TenantModel):
    """The tokens of one connected mailbox; a disconnected one has none."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="credentials"
    )
    refresh_token = EncryptedTextField()
    access_token = EncryptedTextField(blank=True, default="")
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="When Google stops accepting the access token."
    )
    scopes: models.JSONField[list[str], list[str]] = models.JSONField(
        default=list, help_text="What Google said it granted."
    )
    connected_at = models.DateTimeField(db_default=Now(), editable=False)
    refreshed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "credential"
        constraints = [
            models.UniqueConstraint(fields=["firm", "account"], name="credential_once"),
        ]

    def __str__(self) -> str:
        return f"credential of {self.account_id}"
