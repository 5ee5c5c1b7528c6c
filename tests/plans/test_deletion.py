"""The deletion of a firm does not read its history anew for each of its steps."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.delete_owned import stop_jobs_of_firm
from jobs.engine.transactions import in_transaction
from jobs.models import JobQueue
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.plans.test_batches import tables_read
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("T-04"), postgresql_only]

FINISHED = 2_000


def test_jobs_in_flight_are_found_without_those_that_are_over(firm: Firm) -> None:
    with all_firms("test"):
        JobQueue.objects.bulk_create(
            JobQueueFactory.build_batch(FINISHED, firm=firm, status=Status.COMPLETED, ready=False)
        )
        running = JobQueueFactory(firm=firm, status=Status.PROCESSING, ready=True)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with all_firms("test"), CaptureQueriesContext(connection) as captured:
        in_transaction(lambda: stop_jobs_of_firm(firm.pk))
    with all_firms("test"):
        running.refresh_from_db()
        assert running.cancel_requested_at is not None
        (sql,) = [one["sql"] for one in captured if "cancel_requested_at IS NULL" in one["sql"]]
        read = " | ".join(tables_read(sql))
    # Only ready jobs are in these two.
    assert "job_lane" in read or "job_claim" in read, read
