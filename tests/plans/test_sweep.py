"""The sweep of mail's actions finds dead letters without the jobs that completed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import DeadLetterQueue, JobQueue
from jobs.states import Status
from mail.services.actions import sweep
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.plans.test_batches import tables_read

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-17")]

FINISHED = 2_000


def test_the_death_of_a_wake_is_found_among_dead_letters(firm: Firm) -> None:
    snooze: Any = SimpleNamespace(pk=uuid4())
    with all_firms("test"):
        JobQueue.objects.bulk_create(
            JobQueueFactory.build_batch(FINISHED, firm=firm, status=Status.COMPLETED, ready=False)
        )
        dead = JobQueueFactory(
            firm=firm,
            job_type=sweep.WAKE_TYPE,
            status=Status.DLQ,
            ready=False,
            payload={"action_id": str(snooze.pk)},
        )
        DeadLetterQueue.objects.create(
            firm=firm, original_job=dead, job_series=1, reason="exhausted"
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with all_firms("test"), CaptureQueriesContext(connection) as captured:
        assert sweep._deaths([snooze]).keys() == {str(snooze.pk)}
        (sql,) = [one["sql"] for one in captured]
        read = tables_read(sql)
    assert not [
        step for step in read if step.startswith(("Seq Scan jobs_jobqueue", "SCAN jobs_jobqueue"))
    ], read
