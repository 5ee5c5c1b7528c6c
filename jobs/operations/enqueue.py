"""The operation that enqueues a job by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.engine.enqueue import EnqueueResult
from jobs.engine.enqueue import enqueue as store
from jobs.engine.redaction import redaction_faults
from jobs.errors import PayloadInvalid
from jobs.models import JobQueue
from jobs.operations.operation import By, audit, operation
from tenants.models import Firm


@operation
def enqueue(
    job_type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    firm: Firm | int | None = None,
    by: By = None,
    reason: str = "",
    **options: Any,
) -> EnqueueResult:
    """Store one job, as `jobs.engine.enqueue` does with these `options`, and audit it.

    A job that has the idempotency key already is returned instead; unless it is replaced, nothing
    is audited.

    Raises:
        PayloadInvalid: the payload or an option is refused, or the payload holds a mask.
        MissingTenant: no firm given, none in scope, and there are several.
    """
    if faults := redaction_faults(payload):
        raise PayloadInvalid(job_type, faults)
    result = store(job_type, payload, firm=firm, **options)
    if result.created or result.replaced:
        rows = JobQueue.objects.unscoped("the job just stored")
        job = rows.only("firm_id", "job_type", "priority", "scheduled_at").get(pk=result.job_id)
        after: dict[str, Any] = {
            "job_type": job.job_type,
            "priority": job.priority,
            "scheduled_at": job.scheduled_at.isoformat(),
        }
        if result.replaced:
            after["replaced"] = True
        audit("job.enqueue", job, by, reason, after=after)
    return result
