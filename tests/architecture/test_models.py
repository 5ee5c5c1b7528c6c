"""Every table belongs to a firm, and says so in every unique constraint."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import models

from jobs.models import JobQueue
from tenants.models import FirmOwned, TenantModel

OURS = [
    model for model in apps.get_models() if model._meta.app_label in ("tenants", "jobs", "mail")
]

# Tables of no firm, and why.
OF_NO_FIRM = {
    "tenants.Firm": "the directory of firms itself",
    "jobs.Worker": "serves every firm",
    "jobs.WorkerVersion": "workers serve every firm",
    "jobs.PlatformMinute": "sums of all firms",
    "jobs.PlatformHour": "sums of all firms",
    "jobs.PlatformLatency": "sums of all firms",
    "tenants.RequestCount": "counts whoever asks, before it is known who that is",
}


def unique_without_firm(model: type[models.Model]) -> set[str]:
    """Return what is unique in the table across firms, by constraint or by field."""
    meta = model._meta
    found: set[str] = {
        constraint.name
        for constraint in meta.constraints
        if isinstance(constraint, models.UniqueConstraint) and "firm" not in constraint.fields
    }
    found |= {str(fields) for fields in meta.unique_together if "firm" not in fields}
    plain: list[Any] = [field for field in meta.local_fields if not field.primary_key]
    found |= {field.name for field in plain if field.unique}
    return found


@pytest.mark.req("T-02")
def test_every_model_belongs_to_a_firm():
    strangers = {
        model._meta.label
        for model in OURS
        if not issubclass(model, FirmOwned) and model._meta.label not in OF_NO_FIRM
    }
    assert strangers == set()
    assert len(OURS) > 10


@pytest.mark.req("T-02")
def test_the_manager_that_fails_closed_is_nowhere_replaced():
    for model in OURS:
        if issubclass(model, FirmOwned):
            manager: Any = model._default_manager
            assert hasattr(manager, "unscoped"), model._meta.label


@pytest.mark.req("J-01")
def test_ids_of_firm_owned_rows_are_uuids():
    owned = [model for model in OURS if issubclass(model, FirmOwned)]
    assert {model._meta.label for model in owned if not issubclass(model, TenantModel)} <= {
        JobQueue._meta.label
    }
    assert all(isinstance(model._meta.pk, models.UUIDField) for model in owned)


# Unique across firms, and why that is right.
UNIQUE_ACROSS_FIRMS: dict[str, set[str]] = {
    "tenants.Firm": {"slug"},
    # Platform sums: one row for all firms of the database.
    "jobs.PlatformMinute": {"platform_minute_once"},
    "jobs.PlatformHour": {"platform_hour_once"},
    "jobs.PlatformLatency": {"platform_latency_once"},
}


@pytest.mark.req("T-02", "J-07")
def test_every_unique_constraint_contains_the_firm():
    found = {model._meta.label: names for model in OURS if (names := unique_without_firm(model))}
    assert found == UNIQUE_ACROSS_FIRMS


@pytest.mark.req("J-01")
def test_the_queues_tables_have_no_database_constraint_on_the_firm():
    for model in OURS:
        if model._meta.app_label == "jobs" and issubclass(model, FirmOwned):
            assert model._meta.get_field("firm").db_constraint is False, model._meta.label
    for name in ("firm", "user", "parent"):
        assert JobQueue._meta.get_field(name).db_constraint is False
