"""Workers analyze a table of jobs that has grown, so that plans for a small one are replaced."""

from __future__ import annotations

import threading
from unittest.mock import patch

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.engine.outcomes import Completed, Settlement
from jobs.engine.pending_work import read_pending_work
from jobs.engine.settle import settle
from jobs.engine.table_statistics import TableWatch
from jobs.models import Worker
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from jobs.testing.run import run_maintenance
from tenants.models import Firm
from tests.queue_kit import new_worker, table_rows
from tests.support.databases import database_url, postgresql_only
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_autovacuum"),
    pytest.mark.req("J-08"),
]

BACKLOG = 4_000


def read_by_scans() -> int:
    """Return how many rows of the table were ever read without an index."""
    # The view has this connection's own counts from the second statement on.
    table_rows("SELECT pg_stat_force_next_flush()::text")
    table_rows("SELECT 1")
    ((rows,),) = table_rows(
        "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'jobs_jobqueue'"
    )
    return int(rows)


def work_through(jobs: int) -> int:
    """Claim and complete `jobs` jobs; return how many rows were read without an index."""
    before = read_by_scans()
    claims = claim(new_worker(), jobs, FairShare())
    report = settle([Settlement(one, Completed({}, "{}"), 0.001) for one in claims])
    assert set(report.statuses.values()) == {"completed"}
    return read_by_scans() - before


def forget_statistics() -> None:
    """Empty the table, and analyze it, so that the planner takes it for small."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_jobqueue CASCADE")
        cursor.execute("ANALYZE jobs_jobqueue")


def burst(firm: Firm) -> None:
    """Enqueue so many jobs that plans for a small table are slow."""
    enqueue_many([EnqueueSpec("test.work")] * BACKLOG, firm=firm)


def pages() -> int:
    """Return the size of the table as workers read it."""
    return read_pending_work(claims=False).pages


def known_pages() -> int:
    """Return the size of the table at its last analysis."""
    ((known,),) = table_rows("SELECT relpages FROM pg_class WHERE relname = 'jobs_jobqueue'")
    return int(known)


@postgresql_only
def test_the_plans_of_an_empty_table_do_not_last(firm: Firm) -> None:
    forget_statistics()
    watch = TableWatch()
    assert not watch.has_outgrown(pages())
    enqueue("test.work", firm=firm)
    work_through(1)
    assert not watch.has_outgrown(pages())
    burst(firm)
    assert work_through(10) > BACKLOG, "the plans are good already, so the test shows nothing"
    assert watch.has_outgrown(pages())
    watch.analyze()
    assert not watch.has_outgrown(pages())
    assert work_through(10) == 0


@postgresql_only
def test_a_worker_has_a_table_analyzed_that_outgrew_its_plans(firm: Firm) -> None:
    forget_statistics()
    looked: list[int] = []
    looks = TableWatch.has_outgrown

    def note(watch: TableWatch, pages: int) -> bool:
        looked.append(pages)
        return looks(watch, pages)

    with (
        patch.object(TableWatch, "has_outgrown", note),
        working(worker_loop(burst=False, job_types=("test.other",))),
    ):
        wait_until(lambda: bool(looked), "the worker to look at the table")
        burst(firm)
        wait_until(lambda: known_pages() > 0, "the table to be analyzed")


@postgresql_only
def test_a_burst_that_comes_before_the_first_maintenance_is_seen(firm: Firm) -> None:
    forget_statistics()
    enqueued = threading.Event()
    looks = TableWatch.has_outgrown

    def after_the_burst(watch: TableWatch, pages: int) -> bool:
        return enqueued.is_set() and looks(watch, pages)

    with (
        patch.object(TableWatch, "has_outgrown", after_the_burst),
        working(worker_loop(burst=False, job_types=("test.other",))),
    ):
        wait_until(Worker.objects.exists, "the worker to start")
        burst(firm)
        enqueued.set()
        wait_until(lambda: known_pages() > 0, "the table to be analyzed")


@postgresql_only
def test_a_large_table_is_not_analyzed_for_plans_that_are_to_come(firm: Firm) -> None:
    forget_statistics()
    burst(firm)
    watch = TableWatch()
    watch.look()
    assert not watch.has_outgrown(pages())
    assert watch.has_outgrown(5 * pages())


@postgresql_only
def test_a_table_that_was_analyzed_meanwhile_is_left_alone(firm: Firm) -> None:
    forget_statistics()
    burst(firm)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_jobqueue")
    with CaptureQueriesContext(connection) as queries:
        TableWatch().analyze()
    assert not [one for one in queries if "ANALYZE" in one["sql"]]


@postgresql_only
def test_a_worker_that_knew_a_large_table_sees_it_grow_again(firm: Firm) -> None:
    burst(firm)
    watch = TableWatch()
    assert not watch.has_outgrown(pages())
    forget_statistics()
    assert not watch.has_outgrown(pages())
    burst(firm)
    assert watch.has_outgrown(pages())


@postgresql_only
def test_a_table_that_another_session_keeps_is_analyzed_later(firm: Firm) -> None:
    forget_statistics()
    watch = TableWatch()
    watch.has_outgrown(pages())
    burst(firm)
    with psycopg.connect(database_url()) as other:
        # The build of an index takes this lock.
        other.execute("LOCK TABLE jobs_jobqueue IN SHARE UPDATE EXCLUSIVE MODE")
        watch.analyze()
        assert watch.has_outgrown(pages())
    watch.analyze()
    assert not watch.has_outgrown(pages())


@postgresql_only
def test_a_timeout_for_queries_does_not_end_the_analysis(firm: Firm) -> None:
    forget_statistics()
    burst(firm)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '5ms'")
    try:
        TableWatch().analyze()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET statement_timeout")
    assert known_pages() > 0


def test_the_maintenance_of_any_database_ends(firm: Firm) -> None:
    enqueue("test.work", firm=firm)
    run_maintenance()
    assert not TableWatch().has_outgrown(pages())
