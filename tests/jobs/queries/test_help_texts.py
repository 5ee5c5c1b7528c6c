"""What a field means is said in the same words by the model, the admin and the API."""

from __future__ import annotations

import pytest
from django.db.models import Model
from rest_framework.serializers import Serializer

from jobs.admin.limits import RateForm
from jobs.api.notifications import DeliverySerializer
from jobs.api.requests import RateLimitBody
from jobs.models import (
    Attempt,
    AttemptLog,
    Batch,
    BulkRun,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    Delivery,
    JobQueue,
    Pause,
    RateLimit,
    Schedule,
    ScheduleRun,
)
from jobs.queries.durations import plain_number
from jobs.queries.serializers.batches import BatchSerializer
from jobs.queries.serializers.bulk import BulkRunSerializer
from jobs.queries.serializers.jobs import (
    AttemptSerializer,
    DeadLetterSerializer,
    JobRowSerializer,
    LogLineSerializer,
)
from jobs.queries.serializers.limits import (
    BreakerSerializer,
    LockSerializer,
    PauseSerializer,
    RateLimitSerializer,
)
from jobs.queries.serializers.schedules import ScheduleDetailSerializer, ScheduleRunSerializer
from tenants.admin.firm import LimitsForm
from tenants.models import Firm

# What the API shows of these is not what the row holds.
DIFFERENT = {
    "everywhere",  # the API shows no firm for them
    "expires_at",  # only locks that are held
    "job_id",  # of a schedule's run: found by its first and last job
    "message",
    "next_run_at",
    "payload",  # masked
    "probe_at",
}


@pytest.mark.parametrize(
    ("serializer", "model"),
    [
        (AttemptSerializer, Attempt),
        (BatchSerializer, Batch),
        (BreakerSerializer, CircuitBreaker),
        (BulkRunSerializer, BulkRun),
        (DeadLetterSerializer, DeadLetterQueue),
        (DeliverySerializer, Delivery),
        (JobRowSerializer, JobQueue),
        (LockSerializer, ConcurrencyLock),
        (LogLineSerializer, AttemptLog),
        (PauseSerializer, Pause),
        (RateLimitSerializer, RateLimit),
        (ScheduleDetailSerializer, Schedule),
        (ScheduleRunSerializer, ScheduleRun),
    ],
)
def test_the_api_describes_a_field_as_its_model_does(
    serializer: type[Serializer], model: type[Model]
) -> None:
    columns = {field.name: str(getattr(field, "help_text", "")) for field in model._meta.fields}
    for name, field in serializer().fields.items():
        column, said = columns.get(name, ""), field.help_text or ""
        if column and said and name not in DIFFERENT:
            assert said == column.replace("empty", "null").replace("Empty", "Null"), name


def test_forms_and_bodies_begin_with_what_the_model_says() -> None:
    for name in ("amount", "burst"):
        said = RateLimit._meta.get_field(name).help_text
        assert RateForm.base_fields[name].help_text.startswith(said)
        assert RateLimitBody().fields[name].help_text.startswith(said)
    for name in ("active", "weight"):
        said = Firm._meta.get_field(name).help_text
        assert LimitsForm.base_fields[name].help_text == said


@pytest.mark.parametrize(
    ("value", "text"),
    [(60.0, "60"), (0.001, "0.001"), (1_000_000.0, "1000000"), (1e-05, "0.00001"), (2.5, "2.5")],
)
def test_a_number_has_all_its_digits(value: float, text: str) -> None:
    assert plain_number(value) == text
