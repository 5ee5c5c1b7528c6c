"""Pages show ages and states by the database's clock, however wrong the web server's is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.engine.clock import database_now
from jobs.models import Pause, RateBucket, Schedule
from tenants.models import ApiKey, AuditEntry
from tenants.scope import all_firms
from tests.jobs.admin.conftest import FirmRows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-03")]

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[-10, 10], ids=["behind", "ahead"], autouse=True)
def wrong_clock(request: pytest.FixtureRequest, acme: FirmRows) -> Iterator[None]:
    """Set the web server's clock ten minutes wrong."""
    with time_machine.travel(timezone.now() + request.param * MINUTE):
        yield


def page(client: Client, model: str) -> str:
    """Return the text of a list."""
    return client.get(reverse(f"admin:{model}_changelist")).content.decode()


def states(shown: str, *words: str) -> set[str]:
    """Return those of the words that are alone on a line, as labels are."""
    return {line.strip() for line in shown.splitlines()} & set(words)


@pytest.mark.parametrize(
    ("minutes", "state", "ends"), [(5, "holds", "in 4 min"), (-5, "over", "5 min ago")]
)
def test_a_pause_holds_until_the_databases_time(
    member: Client, acme: FirmRows, minutes: int, state: str, ends: str
) -> None:
    with all_firms("test"):
        Pause.objects.filter(pk=acme.pause.pk).update(until=database_now() + minutes * MINUTE)
    shown = page(member, "jobs_pause")
    assert f">{ends}</time>" in shown
    assert states(shown, "holds", "over") == {state}


def test_ages_are_the_databases(member: Client, acme: FirmRows) -> None:
    times = {
        "last_run_at": database_now() - 65 * MINUTE,
        "next_run_at": database_now() + 65 * MINUTE,
    }
    with all_firms("test"):
        Schedule.objects.filter(pk=acme.schedule.pk).update(**times)
    shown = page(member, "jobs_schedule")
    assert ">1 h ago</time>" in shown
    assert ">in 1 h</time>" in shown


def test_a_token_bucket_is_filled_by_the_databases_time(member: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        RateBucket.objects.filter(firm=acme.firm).update(tokens=0, refilled_at=database_now())
    assert "next in 11 s" in page(member, "jobs_ratelimit")


def test_a_key_expires_by_the_databases_time(member: Client, acme: FirmRows) -> None:
    for minutes, state in ((-5, "expired"), (5, "valid")):
        with all_firms("test"):
            ApiKey.objects.filter(pk=acme.api_key.pk).update(
                expires_at=database_now() + minutes * MINUTE
            )
        shown = member.get(reverse("admin:tenants_apikey_change", args=[acme.api_key.pk]))
        assert f">{state}</div>" in shown.content.decode()


@pytest.mark.parametrize(("minutes", "is_listed"), [(55, True), (65, False)])
def test_the_audit_log_is_narrowed_by_the_databases_time(
    firm_admin: Client, acme: FirmRows, minutes: int, is_listed: bool
) -> None:
    with all_firms("test"):
        entry = AuditEntry.objects.create(
            firm=acme.firm,
            act="pause.set",
            door="admin",
            target_type="pause",
            target_id="the-one",
            created_at=database_now() - minutes * MINUTE,
        )
    address = reverse("admin:tenants_auditentry_changelist")
    shown = firm_admin.get(address, {"age": "1h"}).content.decode()
    assert (reverse("admin:tenants_auditentry_change", args=[entry.pk]) in shown) == is_listed
