"""Query parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from rest_framework import serializers

from interfaces.api.serializers import MomentField, QuerySerializer, StrictSerializer, TextField
from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from jobs.engine.job_arguments import MAX_KEY_LENGTH
from jobs.queries.filters import OPEN
from jobs.queries.held_back import ANYTHING, HELD_BACK
from jobs.states import (
    Category,
    Channel,
    DeadReason,
    DeliveryStatus,
    LockKind,
    Resolution,
    Status,
    WorkerState,
)
from tenants.audit import Door

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_SEARCH_LENGTH = 500


def choice(values: Iterable[str], help_text: str, **options: Any) -> Any:
    """Return the optional field of one of these values."""
    return serializers.ChoiceField(
        [str(value) for value in values], required=False, help_text=help_text, **options
    )


def text(help_text: str, max_length: int) -> TextField:
    """Return the optional field of a text."""
    return TextField(required=False, max_length=max_length, help_text=help_text)


class FirmQuery(QuerySerializer):
    """Narrows to one of the caller's firms."""

    firm = text("The slug of a firm; without it, all of the caller's firms.", 50)


class PageQuery(QuerySerializer):
    """Which page of a list."""

    limit = serializers.IntegerField(
        default=DEFAULT_LIMIT, min_value=1, max_value=MAX_LIMIT, help_text="Rows per page."
    )
    cursor = text("`next` of the previous page.", 200)


class FirmPageQuery(PageQuery, FirmQuery):
    """Which page of a list of firms' rows."""


class LockQuery(FirmPageQuery):
    """The page and the filters of locks."""

    kind = choice(LockKind, "Who holds the lock: a job, or user code that acquired it for a time.")
    search = text("The lock key, or its beginning.", MAX_KEY_LENGTH)


class WorkerQuery(PageQuery):
    """The page and the filters of workers."""

    state = choice(
        WorkerState,
        (
            "`live`: holds its lease; `silent`: has lost it, but is not yet marked dead; `dead`: "
            "marked dead."
        ),
    )
    category = choice(Category, "A category that the worker serves.")
    host = text("The exact host.", 200)


class JobFilters(StrictSerializer):
    """The filters of jobs, of the list and of a bulk run."""

    status = choice(Status, "The job's status.")
    category = choice(Category, "The kind of work.")
    job_type = text("The exact type.", 100)
    limit_key = text("The exact limit key, for example a mailbox's.", MAX_KEY_LENGTH)
    correlation_id = text("All jobs of one request or event.", MAX_CORRELATION_ID_LENGTH)
    user = text("On whose behalf the job runs: the user's sign-in name.", 150)
    created_after = MomentField(required=False, help_text="Created at this time or later.")
    created_before = MomentField(required=False, help_text="Created before this time.")
    error = text("Text in the job's last error, in upper or lower case.", 200)
    held_back = choice(
        [*HELD_BACK, ANYTHING],
        "What holds back a job that is due; `anything` for any reason.",
    )
    search = text(
        "A job id or its beginning, a correlation id, or the beginning of an idempotency key. "
        "Qualifiers: type:, firm:, status:, error:, key:, correlation:, user:, reason: (of a dead "
        "letter or a wait), created: (>2026-01-31, 2026-01-31..2026-02-03 or 6h). payload.FIELD: "
        "needs type: and created: beside it, and is only for operators. Quote a value that "
        "contains spaces.",
        MAX_SEARCH_LENGTH,
    )


class JobQuery(FirmPageQuery, JobFilters):
    """The page and the filters of jobs."""


class DeadLetterQuery(FirmPageQuery):
    """The page and the filters of dead letters."""

    resolution = choice(
        [OPEN, *Resolution],
        "What was decided; `open`: not decided yet, whether escalated or not.",
    )
    reason = choice(DeadReason, "Why the job was dead-lettered.")
    category = choice(Category, "The kind of work.")
    job_type = text("The exact type.", 100)
    fingerprint = text("Equal failures have the same fingerprint.", 32)
    user = text("On whose behalf the job runs: the user's sign-in name.", 150)
    created_after = MomentField(
        required=False, help_text="Dead-lettered at this time or later (`moved_at`)."
    )
    created_before = MomentField(required=False, help_text="Dead-lettered before this time.")
    search = text(
        "The id of a job or dead letter or its beginning, a fingerprint, an error class, or "
        "`error:` and a text of the error.",
        MAX_KEY_LENGTH,
    )


class AuditQuery(FirmPageQuery):
    """The page and the filters of the audit log."""

    operation = text("The exact operation, such as job.retry.", 50)
    door = choice(get_args(Door), "How the actor reached the service.")
    actor = text("The exact name of the actor.", 200)
    target_type = text("The kind of row, for example job or dead_letter.", 50)
    target_id = text("The exact id of the row.", 64)
    correlation_id = text("The entries of one request or event.", MAX_CORRELATION_ID_LENGTH)
    created_after = MomentField(required=False, help_text="Recorded at this time or later.")
    created_before = MomentField(required=False, help_text="Recorded before this time.")


class DeliveryQuery(FirmPageQuery):
    """The page and the filters of deliveries."""

    channel = choice(Channel, "How the notification was sent.")
    status = choice(DeliveryStatus, "How the attempt ended.")
    event = text("The exact event, for example alert.new_failure.", 100)
    endpoint = serializers.UUIDField(required=False, help_text="The id of the endpoint.")
    job_id = serializers.UUIDField(required=False, help_text="The job that sent the notification.")
