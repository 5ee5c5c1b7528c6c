"""Query parameters and request bodies."""

from __future__ import annotations

from collections.abc import Iterable
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
from jobs.engine.new_job import MAX_KEY_LENGTH
from jobs.operations.limit_faults import LEAST_SECONDS, MOST
from jobs.queries.filters import OPEN
from jobs.queries.held_back import ANYTHING, HELD_BACK
from jobs.states import (
    Category,
    CountedBy,
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


def _choice(values: Iterable[str], help_text: str, **options: Any) -> Any:
    return serializers.ChoiceField(
        [str(value) for value in values], required=False, help_text=help_text, **options
    )


def _text(help_text: str, max_length: int) -> serializers.CharField:
    return serializers.CharField(required=False, max_length=max_length, help_text=help_text)


def _limit_key(help_text: str, *, allow_null: bool = True) -> TextField:
    return TextField(
        required=False, allow_null=allow_null, max_length=MAX_KEY_LENGTH, help_text=help_text
    )


def _optional_note(help_text: str) -> TextField:
    return TextField(default="", allow_blank=True, max_length=MAX_TEXT_LENGTH, help_text=help_text)


class FirmQuery(QuerySerializer):
    """Narrows to one of the caller's firms."""

    firm = _text("The slug of a firm; else all of the caller's.", 50)


class PageQuery(QuerySerializer):
    """Which page of a list."""

    limit = serializers.IntegerField(
        default=DEFAULT_LIMIT, min_value=1, max_value=MAX_LIMIT, help_text="Rows on a page."
    )
    cursor = _text("Where to go on: `next` of the page before.", 200)


class FirmPageQuery(PageQuery, FirmQuery):
    """Which page of a list of firms' rows."""


class LockQuery(FirmPageQuery):
    """The page and the filters of locks."""

    kind = _choice(LockKind, "Who holds it: a job, or user code that acquired it for a time.")
    search = _text("The lock key or its beginning.", MAX_KEY_LENGTH)


class WorkerQuery(PageQuery):
    """The page and the filters of workers."""

    state = _choice(
        WorkerState, "Whether it holds its lease; `silent`: no longer, and not yet marked dead."
    )
    category = _choice(Category, "A kind of work it serves.")
    host = _text("The exact host.", 200)


class JobQuery(FirmPageQuery):
    """The page and the filters of jobs."""

    status = _choice(Status, "Where the job is in its life.")
    category = _choice(Category, "The kind of work.")
    job_type = _text("The exact type.", 100)
    limit_key = _text("The exact limit key, such as a mailbox's.", MAX_KEY_LENGTH)
    correlation_id = _text("All jobs of one request or event.", MAX_CORRELATION_ID_LENGTH)
    created_after = MomentField(required=False, help_text="Created then or later.")
    created_before = MomentField(required=False, help_text="Created before then.")
    error = _text("Text in the job's last error, in any case.", 200)
    held_back = _choice(
        [*HELD_BACK, ANYTHING],
        "What holds the job back although it is due; `anything` for any of it.",
    )
    search = _text(
        "A job id or its beginning, a correlation id, or the beginning of an idempotency key.",
        MAX_KEY_LENGTH,
    )


class DeadLetterQuery(FirmPageQuery):
    """The page and the filters of dead letters."""

    resolution = _choice(
        [OPEN, *Resolution],
        "What was decided; `open` is what waits for a decision, escalated ones too.",
    )
    reason = _choice(DeadReason, "Why the job was dead-lettered.")
    category = _choice(Category, "The kind of work.")
    job_type = _text("The exact type.", 100)
    fingerprint = _text("The same failure has the same fingerprint.", 32)
    created_after = MomentField(
        required=False, help_text="Dead-lettered then or later (`moved_at`)."
    )
    created_before = MomentField(required=False, help_text="Dead-lettered before then.")
    search = _text(
        "A job's or dead letter's id or its beginning, a fingerprint, or an error class.",
        MAX_KEY_LENGTH,
    )


class OptionalReason(StrictSerializer):
    """The body of an operation with an optional reason."""

    reason = _optional_note("Why; kept in the audit log.")


class ObligatoryReason(StrictSerializer):
    """The body of an operation that needs a reason."""

    reason = TextField(max_length=MAX_TEXT_LENGTH, help_text="Why; kept in the audit log.")


class FirmBody(StrictSerializer):
    """The firm to act on."""

    firm = TextField(
        required=False,
        max_length=50,
        help_text="The slug of a firm; not needed where the caller has only one.",
    )


class BreakerBody(ObligatoryReason, FirmBody):
    """The job type and limit key whose circuit breaker is opened, and the reason."""

    job_type = TextField(max_length=100, help_text="A type that declares a circuit breaker.")
    limit_key = _limit_key("The limit key; else the jobs without one.", allow_null=False)


class RateLimitBody(FirmBody):
    """How often jobs may start, and which are counted together."""

    everywhere = FlagField(default=False, help_text="For every firm; for platform staff alone.")
    counted_by = _choice(
        CountedBy,
        "What is counted together: the type's jobs in each `firm`; in each firm those of each limit "
        "`key`; or the type's jobs in `all_firms`, which holds everywhere. Else `firm`.",
    )
    job_type = TextField(
        required=False,
        allow_null=True,
        max_length=100,
        help_text="The exact type. Where keys are counted it may be left out: then jobs of every "
        "type are counted together.",
    )
    limit_key = _limit_key("Where keys are counted: the one that is limited; else each.")
    amount = WholeNumberField(
        min_value=1,
        max_value=MOST,
        help_text="Most units that start in `per_seconds` seconds; a job has one unless its type "
        "declares more.",
    )
    per_seconds = NumberField(
        min_value=LEAST_SECONDS,
        max_value=MOST,
        help_text="The seconds in which `amount` may start.",
    )
    burst = WholeNumberField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST,
        help_text="Most that may start at once after a quiet time; else as many as `amount`.",
    )


class PauseBody(ObligatoryReason, FirmBody):
    """The jobs to pause, and the reason."""

    everywhere = FlagField(
        default=False, help_text="Pause the jobs of every firm; for platform staff alone."
    )
    category = _choice(Category, "The kind of work; else every category.", allow_null=True)
    job_type = TextField(
        required=False,
        allow_null=True,
        max_length=100,
        help_text="The exact type; else every type.",
    )
    limit_key = _limit_key("The exact limit key, such as a mailbox's; else every job.")
    until = MomentField(
        required=False, allow_null=True, help_text="When it ends by itself; else by hand."
    )


class EscalateBody(ObligatoryReason):
    """The person to ask for a decision, and the reason."""

    assigned_to = serializers.EmailField(
        required=False,
        max_length=254,
        help_text="A member of the firm; else its admins are asked.",
    )


class ChangeBody(StrictSerializer):
    """The changes to a job; what is not given stays as it is."""

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


class EditBody(ChangeBody, OptionalReason):
    """The changes to a waiting job."""

    scheduled_at = MomentField(required=False, help_text="Not before this time.")
    run_now = FlagField(default=False, help_text="As soon as a worker is free; in place of a time.")


class ReprocessBody(ChangeBody):
    """The changes to a dead letter's job."""

    note = _optional_note("Kept with the dead letter and in the audit log.")
