"""The history of deleted jobs is found by an index, however much history other jobs have."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.delete_owned import delete_history
from jobs.engine.transactions import in_transaction
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import table_rows
from tests.support.databases import sqlite_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-22"), sqlite_only]

TABLES = {"jobs_attempt", "jobs_attemptlog", "jobs_deadletterqueue", "jobs_jobstep"}


def test_the_history_of_deleted_jobs_is_found_by_their_ids(firm: Firm, other_firm: Firm) -> None:
    jobs = [(uuid4(), firm.pk), (uuid4(), other_firm.pk)]
    with all_firms("test"), CaptureQueriesContext(connection) as captured:
        in_transaction(lambda: delete_history(jobs))
    statements = [one["sql"] for one in captured]
    read = {
        detail
        for sql in statements
        for *_, detail in table_rows(f"EXPLAIN QUERY PLAN {sql.replace('%', '%%')}")
        if any(f" {table} " in f"{detail} " for table in TABLES)
    }
    assert len(read) == len(TABLES)
    assert all("job_id=?" in detail for detail in read), read
