"""Jobs in any state, written as rows: for what reads the tables, not for the engine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.models import JobQueue
from jobs.states import LIVE, Status
from tenants.models import Firm
from tenants.scope import all_firms


def make_job(firm: Firm, **columns: Any) -> JobQueue:
    """Store a job of `firm`, pending `noop` unless `columns` say otherwise."""
    now: datetime = timezone.now()
    status = columns.get("status", Status.PENDING)
    values: dict[str, Any] = {
        "category": "maintenance",
        "job_type": "noop",
        "payload_version": "1.0",
        "payload": {"tenant_id": firm.pk, "version": "1.0", "correlation_id": "c-1"},
        "correlation_id": "c-1",
        "created_at": now,
        "scheduled_at": now,
        "ready": status in LIVE and not columns.get("waiting", False),
        **columns,
    }
    with all_firms("test"):
        job: JobQueue = JobQueue.objects.create(firm=firm, **values)
        job.refresh_from_db()
        return job
