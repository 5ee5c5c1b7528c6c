"""Who is notified, what was sent to them, and which failures they were alerted to."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from jobs.models.base import UNCONSTRAINED, QueueModel, choices
from jobs.states import Channel, DeliveryStatus
from tenants.encryption import EncryptedTextField

MAX_TARGET_LENGTH = 500


class NotificationEndpoint(QueueModel):
    """An address that events are sent to; one of the system firm gets those of every firm."""

    name = models.CharField(max_length=100)
    channel = models.CharField(max_length=10, choices=choices(Channel))
    target = models.CharField(
        max_length=MAX_TARGET_LENGTH, help_text="The e-mail address, or the URL of the webhook."
    )
    events = StoredJSONField(default=list, help_text="The events that the endpoint gets.")
    enabled = models.BooleanField(default=True)
    signing_key = EncryptedTextField(
        default="", blank=True, help_text="The key that webhooks are signed with; encrypted."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "notification endpoint"
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="endpoint_name_once"),
            models.CheckConstraint(
                condition=Q(channel__in=list(Channel)), name="endpoint_channel_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def everywhere(self) -> bool:
        """Whether it gets the events of every firm."""
        return self.firm.is_system

    @property
    def recipient(self) -> str:
        """The target as people see it: a URL without path and query, which may hold a secret."""
        if self.channel == Channel.EMAIL:
            return self.target
        parts = urlsplit(self.target)
        return f"{parts.scheme}://{parts.netloc}"


class Delivery(QueueModel):
    """One attempt to send an e-mail or a webhook."""

    endpoint = models.ForeignKey(NotificationEndpoint, null=True, related_name="+", **UNCONSTRAINED)
    channel = models.CharField(max_length=10, choices=choices(Channel))
    event = models.CharField(max_length=100, default="", blank=True)
    recipient = models.TextField(help_text="The e-mail addresses, or the webhook's host.")
    job_id = models.UUIDField(help_text="The job that sent the notification.")
    attempt = models.SmallIntegerField(help_text="The number of the job's attempt.")
    status = models.CharField(
        max_length=10, choices=choices(DeliveryStatus), default=DeliveryStatus.SENDING.value
    )
    status_code = models.SmallIntegerField(
        null=True, help_text="The HTTP status of the answer; empty if there was none."
    )
    error = models.TextField(
        default="", blank=True, help_text="Why it was not delivered; redacted."
    )
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(
                condition=Q(channel__in=list(Channel)), name="delivery_channel_known"
            ),
            models.CheckConstraint(
                condition=Q(status__in=list(DeliveryStatus)), name="delivery_status_known"
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "id"], name="delivery_newest"),
            models.Index(fields=["firm", "job_id"], name="delivery_of_job"),
        ]

    def __str__(self) -> str:
        return f"{self.event or self.channel} to {self.recipient}"


class FailureAlert(QueueModel):
    """When a firm, or the platform as the system firm, was last alerted to a failure."""

    fingerprint = models.CharField(max_length=32)
    new_alerted_at = models.DateTimeField(
        null=True, help_text="Alerts on newly dead-lettered jobs."
    )
    unreviewed_alerted_at = models.DateTimeField(
        null=True, help_text="Alerts on dead letters that waited too long for a review."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "fingerprint"], name="failure_alert_once")
        ]

    def __str__(self) -> str:
        return self.fingerprint
