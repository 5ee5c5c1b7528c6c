"""Batches and their members are found by indexes, however many batches there are."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.unreadable import unreadable_jobs
from jobs.models import Batch, BatchMember
from jobs.queries.job_detail import details_of
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import JobQueueFactory
from tests.support.plans import nodes

pytestmark = [pytest.mark.django_db]

BATCHES = 5_000


def tables_read(sql: str) -> list[str]:
    """Return how the statement reads each table or index."""
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            return [line[3] for line in cursor.fetchall()]
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
        (plan,) = cursor.fetchone()
    found = json.loads(plan) if isinstance(plan, str) else plan
    return [
        f"{node['Node Type']} {node.get('Relation Name')} {node.get('Index Name')}"
        for node in nodes(found[0]["Plan"])
    ]


@pytest.mark.req("A-02")
def test_the_page_of_a_job_reads_no_batch_but_its_own(firm: Firm) -> None:
    job = JobQueueFactory(firm=firm)
    with all_firms("test"):
        Batch.objects.bulk_create(
            Batch(firm=firm, correlation_id="c-1", settled_job_id=uuid4()) for _ in range(BATCHES)
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with firm_scope(firm), CaptureQueriesContext(connection) as captured:
        details_of(job)
        (sql,) = [one["sql"] for one in captured if 'settled_job_id" = ' in one["sql"]]
        read = " | ".join(tables_read(sql))
    for event in ("failed", "settled", "completed"):
        assert f"batch_{event}_job" in read
    # PostgreSQL may scan the table of members, because it is empty.
    assert "Seq Scan jobs_batch " not in read
    assert "SCAN jobs_batch " not in f"{read} "


def test_check_jobs_reads_of_each_batch_no_member_but_its_own(firm: Firm) -> None:
    with all_firms("test"):
        batches = Batch.objects.bulk_create(
            Batch(firm=firm, correlation_id="c-1") for _ in range(100)
        )
        BatchMember.objects.bulk_create(
            BatchMember(firm=firm, batch=batch, job_id=uuid4(), state="pending")
            for batch in batches
            for _ in range(50)
        )
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        with CaptureQueriesContext(connection) as captured:
            unreadable_jobs()
        (sql,) = [one["sql"] for one in captured if "jobs_batchmember" in one["sql"]]
        read = " | ".join(tables_read(sql))
    assert "batch_member_states" in read
    assert "jobs_batchmember_pkey" not in read
    assert "Seq Scan jobs_batchmember" not in read
