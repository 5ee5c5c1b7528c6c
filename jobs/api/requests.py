"""What may be asked: query parameters and bodies."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from rest_framework import serializers

from interfaces.api.serializers import (
    FlagField,
    MomentField,
    NumberField,
    QuerySerializer,
    StrictSerializer,
    TextField,
    WholeNumberField,
)
from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from jobs.engine.enqueue import MAX_KEY_LENGTH
from jobs.operations.limits import LEAST_SECONDS, MOST
from jobs.queries.filters import OPEN
from jobs.states import (
    Category,
    DeadReason,
    LockKind,
    Priority,
    Resolution,
    Status,
    WorkerState,
)

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_TEXT_LENGTH = 2000


def _word(words: type[StrEnum], help_text: str) -> Any:
    return serializers.ChoiceField(
        [word.value for word in words], required=False, help_text=help_text
    )


class FirmQuery(QuerySerializer):
    """Narrows to one of the caller's firms."""

    firm = serializers.CharField(
        required=False, max_length=50, help_text="The slug of a firm; else all of the caller's."
    )


class PageQuery(QuerySerializer):
    """Which page of a list."""

    limit = serializers.IntegerField(
        default=DEFAULT_LIMIT, min_value=1, max_value=MAX_LIMIT, help_text="Rows on a page."
    )
    cursor = serializers.CharField(
        required=False, max_length=200, help_text="Where to go on: `next` of the page before."
    )


class LockQuery(PageQuery, FirmQuery):
    """Which locks."""

    kind = _word(LockKind, "Who holds it: a job, or user code that took it for a time.")
    search = serializers.CharField(
        required=False, max_length=MAX_KEY_LENGTH, help_text="The lock key or its beginning."
    )


class WorkerQuery(PageQuery):
    """Which workers."""

    state = _word(
        WorkerState, "Whether it holds its lease; `silent`: no longer, and not yet marked dead."
    )
    category = _word(Category, "A kind of work it serves.")
    host = serializers.CharField(required=False, max_length=200, help_text="The exact host.")


class PauseQuery(PageQuery, FirmQuery):
    """Which pauses."""


class RateLimitQuery(PageQuery, FirmQuery):
    """Which rate limits."""


class BreakerQuery(PageQuery, FirmQuery):
    """Which circuit breakers."""


class ScheduleQuery(PageQuery, FirmQuery):
    """Which schedules."""


class JobQuery(PageQuery, FirmQuery):
    """Which jobs."""

    status = _word(Status, "Where the job is in its life.")
    category = _word(Category, "The kind of work.")
    job_type = serializers.CharField(required=False, max_length=100, help_text="The exact type.")
    correlation_id = serializers.CharField(
        required=False,
        max_length=MAX_CORRELATION_ID_LENGTH,
        help_text="All jobs of one request or event.",
    )
    created_after = MomentField(required=False, help_text="Created then or later.")
    created_before = MomentField(required=False, help_text="Created before then.")
    error = serializers.CharField(
        required=False, max_length=200, help_text="Text in the job's last error, in any case."
    )
    search = serializers.CharField(
        required=False,
        max_length=MAX_KEY_LENGTH,
        help_text="A job id or its beginning, a correlation id, or the beginning of an "
        "idempotency key.",
    )


class DeadLetterQuery(PageQuery, FirmQuery):
    """Which dead letters."""

    resolution = serializers.ChoiceField(
        [OPEN, *(word.value for word in Resolution)],
        required=False,
        help_text="What was decided; `open` is what waits for a decision, escalated ones too.",
    )
    reason = _word(DeadReason, "Why the job was dead-lettered.")
    category = _word(Category, "The kind of work.")
    job_type = serializers.CharField(required=False, max_length=100, help_text="The exact type.")
    fingerprint = serializers.CharField(
        required=False, max_length=32, help_text="The same failure has the same fingerprint."
    )
    created_after = MomentField(required=False, help_text="Given up then or later (`moved_at`).")
    created_before = MomentField(required=False, help_text="Given up before then.")
    search = serializers.CharField(
        required=False,
        max_length=MAX_KEY_LENGTH,
        help_text="A job's or dead letter's id or its beginning, a fingerprint, or an error class.",
    )


class OptionalReason(StrictSerializer):
    """An act that may say why."""

    reason = TextField(
        required=False,
        default="",
        allow_blank=True,
        max_length=MAX_TEXT_LENGTH,
        help_text="Why; kept in the audit log.",
    )


class ObligatoryReason(StrictSerializer):
    """An act that must say why."""

    reason = TextField(max_length=MAX_TEXT_LENGTH, help_text="Why; kept in the audit log.")


class FirmBody(StrictSerializer):
    """For which firm."""

    firm = TextField(
        required=False,
        max_length=50,
        help_text="The slug of a firm; not needed where the caller has only one.",
    )


class BreakerBody(ObligatoryReason, FirmBody):
    """Which type's jobs to hold back, and why."""

    job_type = TextField(max_length=100, help_text="A type that declares a circuit breaker.")


class RateLimitBody(FirmBody):
    """How often a type may start."""

    everywhere = FlagField(
        default=False,
        help_text="For every firm, each counted for itself; for platform staff alone.",
    )
    job_type = TextField(max_length=100, help_text="The exact type.")
    amount = WholeNumberField(min_value=1, max_value=MOST, help_text="So many starts,")
    per_seconds = NumberField(
        min_value=LEAST_SECONDS, max_value=MOST, help_text="in so many seconds."
    )
    burst = WholeNumberField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST,
        help_text="Most that may start at once after a quiet time; else as many as `amount`.",
    )


class PauseBody(ObligatoryReason, FirmBody):
    """What to hold back, and why."""

    everywhere = FlagField(
        default=False, help_text="Hold it back for every firm; for platform staff alone."
    )
    category = serializers.ChoiceField(
        [word.value for word in Category],
        required=False,
        allow_null=True,
        help_text="The kind of work; else every category.",
    )
    job_type = TextField(
        required=False,
        allow_null=True,
        max_length=100,
        help_text="The exact type; else every type.",
    )
    until = MomentField(
        required=False, allow_null=True, help_text="When it ends by itself; else by hand."
    )


class EscalateBody(ObligatoryReason):
    """Whom to ask to look, and why."""

    assigned_to = serializers.EmailField(
        required=False,
        max_length=254,
        help_text="A member of the firm; else its admins are asked.",
    )


class ReprocessBody(StrictSerializer):
    """What to change on the way; without a field, what is there stays."""

    payload = serializers.DictField(
        required=False,
        help_text="The whole edited payload; it is checked as at enqueue. A mask is refused: give "
        "the secret that it hides.",
    )
    priority = WholeNumberField(
        required=False,
        min_value=min(Priority),
        max_value=max(Priority),
        help_text="0 critical, 1 high, 2 normal, 3 low.",
    )
    note = TextField(
        required=False,
        default="",
        allow_blank=True,
        max_length=MAX_TEXT_LENGTH,
        help_text="Kept with the dead letter and in the audit log.",
    )
