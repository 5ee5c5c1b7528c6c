"""What people may ask for about data: an export of a firm or of a person, a person's erasure."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from tenants.encryption import EncryptedTextField
from tenants.models import TenantModel

MAX_NAME_LENGTH = 200


class RequestKind(models.TextChoices):
    """What is asked for; each value is the type of the job that does it."""

    FIRM_EXPORT = "firm_export", "Export of the firm"
    GDPR_EXPORT = "gdpr_export", "Export of a person's data"
    ERASE_SUBJECT = "erase_subject", "Erasure of a person"


class RequestStatus(models.TextChoices):
    """How far a request has come."""

    RUNNING = "running", "Running"
    READY = "ready", "Ready"
    DONE = "done", "Done"
    EXPIRED = "expired", "Expired"
    FAILED = "failed", "Failed"


class DataRequest(TenantModel):
    """One request. An export that outlives its firm belongs to the system firm."""

    kind = models.CharField(max_length=20, choices=RequestKind)
    status = models.CharField(
        max_length=10, choices=RequestStatus, default=RequestStatus.RUNNING, db_index=False
    )
    about_firm_id = models.BigIntegerField(help_text="The firm whose data it is about.")
    about_firm = models.CharField(max_length=50, help_text="Its slug.")
    subject = EncryptedTextField(
        blank=True, default="", help_text="The person's address; empty once it is erased."
    )
    reason = models.TextField(blank=True, default="")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
    )
    requested_by_name = models.CharField(
        max_length=MAX_NAME_LENGTH, help_text="As the audit log says it."
    )
    position = models.JSONField(
        default=dict, blank=True, help_text="{stage, after}: up to where the job has done it."
    )
    parts = models.PositiveIntegerField(default=0, help_text="Stored parts of the zip.")
    counts = models.JSONField(default=dict, blank=True, help_text="Rows by table.")
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that does it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="When the zip is deleted.")

    class Meta:
        verbose_name = "data request"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind__in=RequestKind.values, status__in=RequestStatus.values),
                name="data_request_known",
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "id"], name="data_request_newest"),
            models.Index(
                fields=["expires_at"],
                condition=models.Q(status="ready", expires_at__isnull=False),
                name="data_request_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.get_status_display()})"


class ExportPart(TenantModel):
    """A part of an export's zip: compressed bytes that are appended to the file of this name."""

    request = models.ForeignKey(
        DataRequest, on_delete=models.CASCADE, db_index=False, related_name="stored_parts"
    )
    number = models.PositiveIntegerField()
    name = models.CharField(
        max_length=MAX_NAME_LENGTH, blank=True, help_text="Empty: the bytes are a zip of files."
    )
    content = models.BinaryField()

    class Meta:
        verbose_name = "export part"
        constraints = [
            models.UniqueConstraint(fields=["firm", "request", "number"], name="export_part_once")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.number}"


class SuppressionList(TenantModel):
    """A firm's erased persons, as keyed hashes of their addresses: their mail is not stored."""

    key = EncryptedTextField(help_text="The key of the hashes; encrypted.")
    digests: models.JSONField[list[str], list[str]] = models.JSONField(default=list, blank=True)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "suppression list"
        constraints = [
            models.UniqueConstraint(fields=["firm"], name="suppression_list_once"),
        ]

    def __str__(self) -> str:
        return f"{len(self.digests)} erased"
