"""Batches in the admin."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Batch, BatchMember
from tenants.scope import all_firms
from tests.jobs.admin.conftest import FirmRows, url_name

pytestmark = pytest.mark.req("A-02", "O-03")

LIST = "admin:jobs_batch_changelist"


def test_the_list_and_the_page_say_how_far_it_is(member: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        Batch.objects.filter(pk=acme.batch.pk).update(failed_at=datetime(2026, 3, 1, 9, tzinfo=UTC))
        for job, state in ((acme.waiting, "completed"), (acme.dead, "failed")):
            BatchMember.objects.create(firm=acme.firm, batch=acme.batch, job=job, state=state)
    assert "1 of 2 completed, 1 failed" in member.get(reverse(LIST)).content.decode()
    page = member.get(
        reverse(f"admin:{url_name(acme.batch)}_change", args=[acme.batch.pk])
    ).content.decode()
    assert "1 of 2 completed, 1 failed" in page
    assert reverse("admin:jobs_jobqueue_change", args=[acme.dead.pk]) in page
    assert "2026-03-01 09:00:00 UTC" in page
    assert f"q=correlation%3A{acme.batch.correlation_id}" in page


def test_the_page_of_a_job_leads_to_its_batch(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    with all_firms("test"):
        BatchMember.objects.create(firm=acme.firm, batch=acme.batch, job=acme.dead, state="failed")
    address = reverse("admin:jobs_batch_change", args=[acme.batch.pk])
    of_job = reverse("admin:jobs_jobqueue_change", args=[acme.dead.pk])
    assert address in member.get(of_job).content.decode()
    of_none = reverse("admin:jobs_jobqueue_change", args=[acme.waiting.pk])
    assert address not in member.get(of_none).content.decode()


def test_the_page_of_a_callbacks_job_leads_to_the_batch_that_enqueued_it(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    with all_firms("test"):
        Batch.objects.filter(pk=acme.batch.pk).update(completed_job_id=acme.waiting.pk)
        # The queue never stores this, but another firm's batch must not be shown even then.
        Batch.objects.filter(pk=globex.batch.pk).update(failed_job_id=acme.waiting.pk)
    address = reverse("admin:jobs_batch_change", args=[acme.batch.pk])
    page = member.get(reverse("admin:jobs_jobqueue_change", args=[acme.waiting.pk]))
    text = page.content.decode()
    assert "Enqueued when all jobs were completed in the batch" in text
    assert address in text
    assert str(globex.batch.pk) not in text


def test_a_list_of_none_says_so(member: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        Batch.objects.all().delete()
    assert "No batches." in member.get(reverse(LIST)).content.decode()
