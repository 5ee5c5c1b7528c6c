"""Editing a waiting job in the admin."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from pytest_django import Settings

from jobs.admin.base import digest
from jobs.models import JobQueue
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit

pytestmark = pytest.mark.req("O-03", "O-08")


@pytest.mark.req("T-05")
def test_a_waiting_job_is_edited(operator: Client, acme: FirmRows) -> None:
    response = submit(
        operator,
        acme.waiting,
        "edit",
        priority="0",
        scheduled_at="2099-01-31T09:00",
        reason="after the holidays",
    )
    assert response["Location"] == operation_url(acme.waiting, "change")
    assert "2099-01-31 09:00:00 UTC" in messages_of(response)
    assert (now(acme.waiting).priority, now(acme.waiting).scheduled_at.year) == (0, 2099)
    (entry,) = audit_entries(acme.waiting.pk)
    assert (entry.act, entry.door, entry.reason) == ("job.edit", "admin", "after the holidays")
    assert entry.after.keys() == {"priority", "scheduled_at"}


def test_what_is_wrong_is_said_at_its_field(operator: Client, acme: FirmRows) -> None:
    for answers, field in (
        ({"run_now": "on", "scheduled_at": "2099-01-31T09:00"}, "run_now"),
        ({"scheduled_at": "soon"}, "scheduled_at"),
        ({"payload": json.dumps({**acme.waiting.payload, "extra": 1})}, "payload"),
        ({}, "__all__"),
    ):
        response = submit(operator, acme.waiting, "edit", **answers)
        assert response.status_code == 400
        assert response.context["form"].errors.keys() == {field}
    assert audit_entries(acme.waiting.pk) == []


def test_a_job_that_changed_after_the_page_was_opened_is_left_alone(
    operator: Client, acme: FirmRows
) -> None:
    shown = operator.get(operation_url(acme.waiting, "edit"))
    with all_firms("test"):
        JobQueue.objects.filter(pk=acme.waiting.pk).update(priority=1)
    answers = {"seen": shown.context["seen"], "priority": "3", "payload": "{}"}
    assert operator.post(operation_url(acme.waiting, "edit"), answers).status_code == 409
    assert now(acme.waiting).priority == 1


def test_a_job_that_a_worker_has_is_not_offered_for_editing(
    operator: Client, acme: FirmRows
) -> None:
    claimed = JobQueueFactory(firm=acme.firm, status="claimed")
    assert operator.get(operation_url(claimed, "edit")).status_code == 409
    assert (
        operation_url(claimed, "edit")
        not in operator.get(operation_url(claimed, "change")).content.decode()
    )


@pytest.mark.req("T-03")
def test_a_viewer_may_not_edit_and_another_firm_sees_nothing(
    member: Client, operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    assert member.get(operation_url(acme.waiting, "edit")).status_code == 403
    assert operator.get(operation_url(globex.waiting, "edit")).status_code == 404


def test_a_masked_secret_cannot_be_found_by_the_digests_of_guesses(settings: Settings) -> None:
    shown = digest({"kwargs": {"password": "hunter2"}})
    assert shown == digest({"kwargs": {"password": "hunter2"}})
    settings.SECRET_KEY = "another"
    assert shown != digest({"kwargs": {"password": "hunter2"}})
