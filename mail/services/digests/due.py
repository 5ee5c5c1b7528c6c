"""Enqueues the digests that are due: one job for each person, mailbox and day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Exists, OuterRef, QuerySet

from jobs.queue import EnqueueSpec
from mail.models import Connection, MailAccount, NotificationPreference
from mail.services.dates import enqueue_due_rows
from mail.services.mailboxes.content_access import own_or_granted
from tenants.models import Membership

DELIVERY_TYPE = "digest_delivery"


def enqueue_due_digests(checkpoint: Callable[[], None]) -> int:
    """Enqueue the digests that are due, of every firm; return how many jobs were created.

    Digests of people who are inactive, or who left the firm, wait until they are back.
    """
    return enqueue_due_rows(_due, _specs, checkpoint=checkpoint)


def mailboxes_of(user_id: int) -> QuerySet[MailAccount]:
    """Return the mailboxes for which a person gets digests. Must run in the firm's scope."""
    found: QuerySet[MailAccount] = MailAccount.objects.filter(own_or_granted(user_id), active=True)
    return found.exclude(connection=Connection.DISCONNECTED)


def _due(now: datetime) -> QuerySet[NotificationPreference]:
    member = Membership.objects.filter(user_id=OuterRef("user_id"), firm_id=OuterRef("firm_id"))
    found: QuerySet[NotificationPreference] = NotificationPreference.objects.filter(
        Exists(member), due_at__lte=now, digest_at__isnull=False, user__is_active=True
    )
    return found.select_related("user")


def _specs(row: NotificationPreference, due_at: datetime) -> list[EnqueueSpec]:
    # The day in the person's time zone is part of the job's key, so that there is one job a day.
    day = due_at.astimezone(ZoneInfo(row.time_zone)).date()
    about: dict[str, Any] = {"user_id": row.user_id, "day": day.isoformat()}
    return [
        EnqueueSpec(DELIVERY_TYPE, {**about, "account_id": account_id}, user=row.user)
        for account_id in mailboxes_of(row.user_id).order_by("pk").values_list("pk", flat=True)
    ]
