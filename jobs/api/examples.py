"""Examples in the API's documentation; the firm and its people are invented."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample

_JOB_ID = "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27"
_DEAD_LETTER_ID = "0190b5a5-02f1-7a44-8c61-2f9d7b3e4a10"

DEAD_LETTER = OpenApiExample(
    "Escalated",
    response_only=True,
    status_codes=["200"],
    value={
        "id": _DEAD_LETTER_ID,
        "job_id": _JOB_ID,
        "firm": "harbour-toys",
        "category": "export",
        "job_type": "firm_export",
        "reason": "exhausted",
        "error_class": "ConnectionError",
        "error": "the archive did not answer",
        "fingerprint": "5f1d7a84db00d2fc",
        "moved_at": "2026-03-02T09:14:07.031Z",
        "resolution": "escalated",
        "resolution_note": "Third time this week",
        "reviewed_by": "ada@harbour-toys.example",
        "reviewed_at": "2026-03-02T10:02:55.480Z",
        "assigned_to": "grace@harbour-toys.example",
    },
)
REPROCESS = OpenApiExample(
    "With an edited payload",
    request_only=True,
    value={
        "payload": {
            "tenant_id": 7,
            "version": "1.0",
            "correlation_id": "import-2026-03-02",
            "archive": "2026-02",
        },
        "priority": 1,
        "note": "The archive was renamed",
    },
)
DISCARD = OpenApiExample(
    "Discard", request_only=True, value={"reason": "The customer withdrew the order"}
)
ESCALATE = OpenApiExample(
    "To a colleague",
    request_only=True,
    value={"reason": "Third time this week", "assigned_to": "grace@harbour-toys.example"},
)
RETRY = OpenApiExample(
    "Retry", request_only=True, value={"reason": "The archive is reachable again"}
)
CANCEL = OpenApiExample("Cancel", request_only=True, value={"reason": "Started by mistake"})
RELEASE = OpenApiExample(
    "Release", request_only=True, value={"reason": "The script that took it crashed"}
)
PAUSE = OpenApiExample(
    "Until the provider is back",
    request_only=True,
    value={
        "category": "ingestion",
        "reason": "The mail provider refuses every request",
        "until": "2099-03-02T12:00:00Z",
    },
)
RESUME = OpenApiExample(
    "Resume", request_only=True, value={"reason": "The mail provider answers again"}
)
RATE_LIMIT = OpenApiExample(
    "Ten a minute",
    request_only=True,
    value={"job_type": "webhook_send", "amount": 10, "per_seconds": 60, "burst": 3},
)
CLEAR_RATE_LIMIT = OpenApiExample(
    "Clear", request_only=True, value={"reason": "The provider has raised its quota"}
)
OPEN_BREAKER = OpenApiExample(
    "Open",
    request_only=True,
    value={"job_type": "sync", "reason": "The provider announced an outage"},
)
CLOSE_BREAKER = OpenApiExample(
    "Close", request_only=True, value={"reason": "The provider answers again"}
)
RUN_SCHEDULE = OpenApiExample(
    "Run", request_only=True, value={"reason": "The morning's run found the archive away"}
)
PAUSE_SCHEDULE = OpenApiExample(
    "Pause", request_only=True, value={"reason": "The archive is being moved"}
)
RESUME_SCHEDULE = OpenApiExample(
    "Resume", request_only=True, value={"reason": "The archive has been moved"}
)
