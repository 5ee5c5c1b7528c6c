"""Request bodies."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from interfaces.api.serializers import (
    FlagField,
    MomentField,
    NumberField,
    StrictSerializer,
    TextField,
    WholeNumberField,
)
from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from jobs.api.query import choice
from jobs.engine.chains import LONGEST_CHAIN
from jobs.engine.job_arguments import MAX_ATTEMPTS, MAX_KEY_LENGTH
from jobs.errors import LONGEST_WAIT_SECONDS
from jobs.models import RateLimit
from jobs.models.notifications import MAX_TARGET_LENGTH
from jobs.operations.endpoints import MAX_NAME_LENGTH
from jobs.operations.limit_faults import LEAST_SECONDS, MOST
from jobs.queries.serializers.fields import help_of
from jobs.states import (
    Category,
    Channel,
    CountedBy,
    NotificationEvent,
    OnConflict,
    Priority,
)

MAX_TEXT_LENGTH = 2000


def _limit_key(help_text: str, *, allow_null: bool = True) -> TextField:
    return TextField(
        required=False, allow_null=allow_null, max_length=MAX_KEY_LENGTH, help_text=help_text
    )


def _optional_note(help_text: str) -> TextField:
    return TextField(default="", allow_blank=True, max_length=MAX_TEXT_LENGTH, help_text=help_text)


def _key(help_text: str) -> TextField:
    return TextField(required=False, max_length=MAX_KEY_LENGTH, help_text=help_text)


def priority_field(purpose: str = "") -> WholeNumberField:
    """Return the field of a priority."""
    return WholeNumberField(
        required=False,
        min_value=min(Priority),
        max_value=max(Priority),
        help_text=f"{purpose}0 critical, 1 high, 2 normal, 3 low.",
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
        help_text="The firm's slug; required if the caller belongs to several.",
    )


class LinkBody(StrictSerializer):
    """A job of a chain; its type decides what is not given."""

    job_type = TextField(max_length=100, help_text="The exact type.")
    payload = serializers.DictField(
        required=False, help_text="The payload's own fields; the envelope is filled in."
    )
    at = MomentField(required=False, help_text="The job does not start before this time.")
    delay = NumberField(
        required=False,
        min_value=0,
        max_value=LONGEST_WAIT_SECONDS,
        help_text="The job does not start for this many seconds; instead of `at`.",
    )
    expires_at = MomentField(
        required=False, help_text="If the job has not started by then, it fails as expired."
    )
    priority = priority_field()
    max_attempts = WholeNumberField(required=False, min_value=1, max_value=MAX_ATTEMPTS)
    idempotency_key = _key(
        "If a job of the firm has this key already, that job is returned and none is enqueued."
    )
    unique_for = NumberField(
        required=False,
        min_value=0,
        max_value=LONGEST_WAIT_SECONDS,
        help_text="The idempotency key stays taken for this many seconds, even after the job is "
        "over. Without a key, type and payload serve as the key.",
    )
    on_conflict = choice(
        OnConflict,
        "What happens to the job that already has the key, if it has not begun: `replace` gives "
        "it this payload and these options, `debounce` also this time, for which it needs `delay` "
        "or `at`. By default it is left unchanged.",
    )
    max_wait = NumberField(
        required=False,
        min_value=0,
        max_value=LONGEST_WAIT_SECONDS,
        help_text="A debounced job is due at the latest this many seconds after it was first "
        "enqueued.",
    )
    lock_key = _key("At most one of the firm's jobs with this key runs at a time.")
    limit_key = _key("Pauses, breakers and rate limits can apply to jobs of this key only.")
    correlation_id = TextField(
        required=False,
        max_length=MAX_CORRELATION_ID_LENGTH,
        help_text="Shared by all jobs of one request or event; by default this request's.",
    )


class EnqueueBody(LinkBody, FirmBody, OptionalReason):
    """The job to enqueue; its type decides what is not given."""


class ChainBody(FirmBody, OptionalReason):
    """The jobs to enqueue one after the other."""

    jobs = serializers.ListField(
        child=LinkBody(),
        min_length=1,
        max_length=LONGEST_CHAIN,
        help_text="The jobs in their order. `at`, `expires_at`, `on_conflict` and `max_wait` are "
        "only for the first; `delay` of another counts from the completion of the one before it.",
    )


class BreakerBody(ObligatoryReason, FirmBody):
    """The job type and limit key whose circuit breaker is opened, and the reason."""

    job_type = TextField(max_length=100, help_text="A type that declares a circuit breaker.")
    limit_key = _limit_key("The limit key; without it, jobs that have none.", allow_null=False)


class RateLimitBody(FirmBody):
    """How often jobs may start, and which are counted together."""

    everywhere = FlagField(default=False, help_text="For every firm; only for platform staff.")
    counted_by = choice(
        CountedBy,
        "What is counted together. `firm`: a type's jobs in each firm; `key`: jobs of each limit "
        "key of a firm; `all_firms`: a type's jobs in all firms, only with everywhere. By default "
        "`firm`.",
    )
    job_type = TextField(
        required=False,
        allow_null=True,
        max_length=100,
        help_text="The exact type. If counted by key it may be left out: then jobs of every type "
        "are counted together.",
    )
    limit_key = _limit_key(help_of(RateLimit, "limit_key"))
    amount = WholeNumberField(
        min_value=1,
        max_value=MOST,
        help_text=help_of(RateLimit, "amount"),
    )
    per_seconds = NumberField(
        min_value=LEAST_SECONDS,
        max_value=MOST,
        help_text=help_of(RateLimit, "per_seconds"),
    )
    burst = WholeNumberField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST,
        help_text=help_of(RateLimit, "burst", "By default `amount`."),
    )


class PauseBody(ObligatoryReason, FirmBody):
    """The jobs to pause, and the reason."""

    everywhere = FlagField(
        default=False, help_text="Pause the jobs of every firm; only for platform staff."
    )
    category = choice(Category, "The category; without it, every category.", allow_null=True)
    job_type = TextField(
        required=False,
        allow_null=True,
        max_length=100,
        help_text="The exact type; without it, every type.",
    )
    limit_key = _limit_key("The exact limit key, for example a mailbox's; without it, every job.")
    until = MomentField(
        required=False,
        allow_null=True,
        help_text="When the pause ends by itself; without it, somebody has to end it.",
    )


class EscalateBody(ObligatoryReason):
    """The person to ask for a decision, and the reason."""

    assigned_to = serializers.EmailField(
        required=False,
        max_length=254,
        help_text="A member of the firm; without it, the firm's admins are asked.",
    )


class RehearseBody(StrictSerializer):
    """The payload to try."""

    payload = serializers.DictField(
        required=False,
        help_text="The whole edited payload, checked as at enqueue. A mask is refused: give the "
        "secret that it hides.",
    )


class ChangeBody(RehearseBody):
    """The changes to a job; what is not given stays as it is."""

    priority = priority_field()


class EditBody(ChangeBody, OptionalReason):
    """The changes to a waiting job."""

    scheduled_at = MomentField(required=False, help_text="Not before this time.")
    run_now = FlagField(default=False, help_text="As soon as a worker is free; in place of a time.")


class ReprocessBody(ChangeBody):
    """The changes to a dead letter's job."""

    reason = _optional_note("Why; kept with the dead letter and in the audit log.")
    note = _optional_note("The older name of `reason`.")


def _events(**options: Any) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.ChoiceField([word.value for word in NotificationEvent]),
        required=False,
        max_length=len(NotificationEvent),
        help_text="The events that it gets.",
        **options,
    )


class EndpointBody(FirmBody):
    """A new notification endpoint."""

    everywhere = FlagField(
        default=False, help_text="For the events of every firm; for platform staff alone."
    )
    name = TextField(max_length=MAX_NAME_LENGTH, help_text="Unique in the firm.")
    channel = serializers.ChoiceField(
        [word.value for word in Channel], help_text="How notifications are sent."
    )
    target = TextField(
        max_length=MAX_TARGET_LENGTH, help_text="The e-mail address, or the URL of the webhook."
    )
    events = _events(default=list)


class ChangeEndpointBody(StrictSerializer):
    """What to change in an endpoint; what is not given stays as it is."""

    name = TextField(required=False, max_length=MAX_NAME_LENGTH, help_text="Unique in the firm.")
    target = TextField(
        required=False,
        max_length=MAX_TARGET_LENGTH,
        help_text="The e-mail address, or the URL of the webhook.",
    )
    events = _events()
    enabled = FlagField(required=False, help_text="Whether notifications are sent to the endpoint.")
