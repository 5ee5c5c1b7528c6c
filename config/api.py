"""Settings of Django REST framework and of the OpenAPI schema."""

from __future__ import annotations

from typing import Any

from jobs.states import BatchState, BulkState, Category, CountedBy, Status

REST_FRAMEWORK_SETTINGS: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        # First, because a 401 carries the WWW-Authenticate of the first class.
        "tenants.api.authentication.ApiKeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.api.authentication.DenyAll"],
    "DEFAULT_PARSER_CLASSES": ["interfaces.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "interfaces.api.schema.OperationSchema",
    "EXCEPTION_HANDLER": "interfaces.api.problems.answer_with_problem",
    "URL_FORMAT_OVERRIDE": None,
}

_DESCRIPTION = """
The data and operations of the queue and of mail, as in the admin and on the command line.

**Authentication**: `Authorization: Bearer KEY` (made by `manage.py create_api_key`), or the session of
the admin together with its CSRF token. A caller sees the firms they belong to; `?firm=slug`
narrows a list to one of them. A row of another firm answers 404.

**Errors** are problem details (RFC 9457): `code` is for programs, `errors` names each field.

**Pages** carry `next`, the `cursor` of the page that follows. New rows shift nothing.

**Throttling**: 600 requests a minute for each key or user, 3,000 for each firm, and 600 without a
valid key or session from each address. More answer 429 with `Retry-After`.

**Correlation**: send `X-Correlation-ID` (at most 64 characters), or take the one that comes back.
"""

OPENAPI_SETTINGS: dict[str, Any] = {
    "TITLE": "Mailroom",
    "DESCRIPTION": _DESCRIPTION,
    "VERSION": "1",
    "TAGS": [
        {"name": "queues", "description": "Counts, waits, throughput and failure rates."},
        {"name": "jobs", "description": "Units of work, past, present and planned."},
        {"name": "dead letters", "description": "Jobs that wait for a person's decision."},
        {"name": "bulk runs", "description": "One operation on many dead letters or jobs."},
        {"name": "workers", "description": "The processes that run jobs."},
        {"name": "locks", "description": "Exclusive rights of jobs and of user code to a key."},
        {"name": "notifications", "description": "Who is told what, and what was sent to them."},
        {"name": "schedules", "description": "Jobs that are enqueued by a timetable."},
        {"name": "decisions", "description": "What was concluded about messages, and why."},
        {
            "name": "actions",
            "description": "What was asked for and done to messages in Gmail, and how to undo it.",
        },
        {"name": "accounts", "description": "Mailboxes: connection, mode and sync."},
    ],
    "ENUM_NAME_OVERRIDES": {
        "ActionTypeEnum": "mail.models.action.ActionType",
        "BatchStateEnum": [word.value for word in BatchState],
        "BulkStateEnum": [word.value for word in BulkState],
        "CategoryEnum": [word.value for word in Category],
        "CountedByEnum": [word.value for word in CountedBy],
        "DecisionSourceEnum": "mail.models.decision.DecisionSource",
        "DocumentStatusEnum": "mail.models.document.DocumentStatus",
        "DraftSourceEnum": "mail.models.draft.DraftSource",
        "DraftStatusEnum": "mail.models.draft.DraftStatus",
        "KindEnum": "mail.models.direction.DirectionKind",
        "ReminderStatusEnum": "mail.models.reminder.ReminderStatus",
        "RequestKindEnum": "mail.models.data_request.RequestKind",
        "LockCountedByEnum": [CountedBy.FIRM.value, CountedBy.ALL_FIRMS.value],
        "MailCategoryEnum": "mail.api.serializers.CATEGORIES",
        "OutboundKindEnum": "mail.models.outbound.OutboundKind",
        "OutboundStatusEnum": "mail.models.outbound.OutboundStatus",
        "StatusEnum": [word.value for word in Status],
        "ThreadStatusEnum": "mail.models.thread.ThreadStatus",
    },
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    # Served by this process, so that the documentation works without the internet.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}
