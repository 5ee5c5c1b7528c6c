"""A plan that was made while the table of jobs was small is made anew once the table has grown."""

from __future__ import annotations

import pytest
from django.db import connection

from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.engine.outcomes import Completed, Settlement
from jobs.engine.pending_work import read_pending_work
from jobs.engine.settle import settle
from jobs.engine.table_statistics import analyze
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from tenants.models import Firm
from tests.queue_kit import new_worker, table_rows
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_autovacuum"),
    pytest.mark.req("J-08"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite keeps no such plans"),
]

BACKLOG = 4_000


def read_by_scans() -> int:
    """Return how many rows of the table were read without an index, ever."""
    # This connection's own counts are in the view after the statement that follows.
    table_rows("SELECT pg_stat_force_next_flush()::text")
    table_rows("SELECT 1")
    ((rows,),) = table_rows(
        "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'jobs_jobqueue'"
    )
    return int(rows)


def work_through(jobs: int) -> int:
    """Claim and complete so many jobs; return how many rows were read without an index."""
    before = read_by_scans()
    claims = claim(new_worker(), jobs, FairShare())
    report = settle([Settlement(one, Completed({}, "{}"), 0.001) for one in claims])
    assert set(report.statuses.values()) == {"completed"}
    return read_by_scans() - before


def forget_statistics() -> None:
    """Leave the table empty, and let the planner believe that it stays so."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_jobqueue CASCADE")
        cursor.execute("ANALYZE jobs_jobqueue")


def test_the_plans_of_an_empty_table_do_not_last(firm: Firm) -> None:
    forget_statistics()
    enqueue("test.work", firm=firm)
    work_through(1)
    assert not read_pending_work().outgrown
    enqueue_many([EnqueueSpec("test.work")] * BACKLOG, firm=firm)
    assert work_through(10) > BACKLOG, "the plans are good already: nothing is shown"
    assert read_pending_work().outgrown
    analyze()
    assert not read_pending_work().outgrown
    assert work_through(10) == 0


def test_a_worker_has_an_outgrown_table_analyzed(firm: Firm) -> None:
    forget_statistics()
    with working(worker_loop(burst=False, job_types=("test.other",))):
        enqueue_many([EnqueueSpec("test.work")] * BACKLOG, firm=firm)
        wait_until(lambda: not read_pending_work().outgrown, "the table to be analyzed")
