"""The attempt hook for Sentry: JOB_ATTEMPT_HOOKS = ["jobs.execution.sentry.report_failure"].

An event has the exception's classes and frames, without the values of variables, and its messages
redacted; its tags name the job. What a handler logs becomes breadcrumbs of its own attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sentry_sdk
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.utils import event_from_exception

from interfaces.redaction import redact
from jobs.engine.outcomes import MESSAGE_LIMIT
from jobs.execution.hooks import RunningAttempt
from jobs.execution.telemetry import FAILURES

# Otherwise Sentry would make an event of the log line of a failure, too.
ignore_logger(FAILURES)


@contextmanager
def report_failure(attempt: RunningAttempt) -> Iterator[None]:
    """Report a failed attempt; not one that was snoozed, canceled or released."""
    with sentry_sdk.isolation_scope() as scope:
        scope.set_transaction_name(attempt.job_type, source="task")
        scope.set_tags(
            {
                "job_type": attempt.job_type,
                "job_category": attempt.category,
                "job_id": str(attempt.job_id),
                "tenant_id": attempt.firm_id,
                "correlation_id": attempt.correlation_id,
            }
        )
        yield
        if attempt.failure is None or attempt.error is None:
            return
        scope.set_tag("outcome", attempt.outcome)
        scope.fingerprint = [attempt.failure.fingerprint]
        options = {**sentry_sdk.get_client().options, "include_local_variables": False}
        event, _ = event_from_exception(
            attempt.error,
            client_options=options,
            mechanism={"type": "mailroom", "handled": False},
        )
        for value in event.get("exception", {}).get("values", []):
            value["value"] = redact(str(value.get("value") or ""), MESSAGE_LIMIT)
        # A retry is less severe than a dead letter.
        event["transaction"] = attempt.job_type
        event["level"] = "error" if attempt.outcome == "deadlettered" else "warning"
        sentry_sdk.capture_event(event)
