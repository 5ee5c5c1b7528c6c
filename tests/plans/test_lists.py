"""Lists, pages and figures read only what they show, by an index; history does not slow them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from jobs.admin.dashboard import dashboard
from jobs.engine.clock import database_now
from jobs.models import DeadLetterQueue, JobQueue, Pause, RateLimit
from jobs.queries import lists
from jobs.queries.bulk import Selection, Totals, eligible_rows, totals_of
from jobs.queries.filters import OPEN, filter_dead_letters, filter_jobs
from jobs.queries.groups import dead_letter_groups
from jobs.queries.held_back import ANYTHING
from jobs.queries.job_detail import details_of
from jobs.queries.lists import dead_letters, get_page, job_rows
from jobs.queries.search import find_jobs
from jobs.queries.stats import queue_stats
from jobs.states import LIVE as LIVE_STATUSES
from jobs.states import BulkOperation, Category, Resolution, Status
from tenants.models import Firm, Membership, Role
from tenants.scope import all_firms, firm_scope
from tests.benchmarks.seed import ERRORS, FIRMS, seed
from tests.queue_kit import table_rows
from tests.support.plans import nodes

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "O-03")]

# That is 20,000 finished, 2,000 waiting, 500 dead, and 5,000 dead letters decided long ago.
COPIES = 20
FINISHED, WAITING, DEAD = 1_000, 100, 25
DECIDED_PER_LETTER = 10
ALL = (FINISHED + WAITING + DEAD) * COPIES
LIVE, OPEN_LETTERS = WAITING * COPIES, DEAD * COPIES
PAGE = 50
# A page of a search reads this many rows, after a query for the last of them.
SEARCHED = 500
READ = 2 * SEARCHED
# This user's jobs are the oldest ones.
OLD_USER, OF_OLD_USER = "ann", 20
# This many of the finished jobs failed, and as many were canceled.
ENDED_OTHERWISE = 5
TABLES = ("jobs_jobqueue", "jobs_deadletterqueue")

Case = Callable[[], object]


def columns_of(table: str) -> list[str]:
    with connection.cursor() as cursor:
        return [
            connection.ops.quote_name(column.name)
            for column in connection.introspection.get_table_description(cursor, table)
        ]


def copy_rows(
    table: str, count: int, ids: tuple[str, ...], *, digits_before: int = 0, **changed: str
) -> None:
    """Copy each row `count` times; the copies differ in four digits near the start of `ids`.

    An id begins with its time. The four digits change its minutes; what makes ids unique follows.
    """
    columns = columns_of(table)
    digits, kind = "printf('%%04x', n)", "text"
    if connection.vendor == "postgresql":
        digits, kind = "lpad(to_hex(n), 4, '0')", "uuid"
    head = f"substr(CAST({{0}} AS text), 1, {digits_before})"
    tail = f"substr(CAST({{0}} AS text), {digits_before + 5})"
    other = f"CAST({head} || {digits} || {tail} AS {kind})"
    values = {connection.ops.quote_name(name): value for name, value in changed.items()}
    values |= {name: other.format(name) for name in map(connection.ops.quote_name, ids)}
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE copy (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copy WHERE n < %s)"
            f" INSERT INTO {table} ({', '.join(columns)})"
            f" SELECT {', '.join(values.get(name, name) for name in columns)} FROM {table}, copy",
            [count],
        )


@pytest.fixture
def firms(db: None) -> list[Firm]:
    """Fill the tables, and hold back jobs in every way; return the firms."""
    firms = seed(finished=FINISHED, waiting=WAITING, dead=DEAD, minutes=2)
    with all_firms("test"):
        copy_rows("jobs_jobqueue", COPIES - 1, ("job_id",))
        names = [OLD_USER, *(f"user-{number}" for number in range(500))]
        user, *_ = User.objects.bulk_create(User(username=name) for name in names)
        # No test filters by another user.
        Membership.objects.create(firm=firms[0], user=user, role=Role.VIEWER)
        oldest = JobQueue.objects.order_by("pk").values_list("pk", flat=True)[:OF_OLD_USER]
        JobQueue.objects.filter(pk__in=list(oldest)).update(user_id=user.pk)
        for place, status in enumerate((Status.FAILED, Status.CANCELED)):
            which = list(oldest)[place * ENDED_OTHERWISE :][:ENDED_OTHERWISE]
            JobQueue.objects.filter(pk__in=which).update(status=status, result=None)
        decided = {"job_series": "1 + n", "resolution": f"'{Resolution.DISCARDED}'"}
        copy_rows("jobs_deadletterqueue", DECIDED_PER_LETTER, ("id",), digits_before=4, **decided)
        copy_rows("jobs_deadletterqueue", COPIES - 1, ("id", "original_job_id"))
        Pause.objects.create(firm=firms[0], reason="x", paused_by="y")
        Pause.objects.create(firm=firms[1], everywhere=True, category="sync", reason="x")
        RateLimit.objects.create(
            firm=firms[1], everywhere=True, job_type="noop", amount=1, per_seconds=60, burst=1
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return firms


def search(text: str) -> object:
    return listed(search=text)


def listed(**chosen: object) -> object:
    found = find_jobs(job_rows(), **chosen)
    return get_page(found.rows, limit=PAGE, window=found.window)


def totals(operation: BulkOperation) -> Totals:
    return totals_of(operation, eligible_rows(operation, Selection()))


def statements(case: Case) -> list[str]:
    """Run the case; return its statements on the two large tables."""
    with CaptureQueriesContext(connection) as queries:
        case()
    asked = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    return [sql for sql in asked if any(f'"{table}"' in sql for table in TABLES)]


def cases() -> dict[str, tuple[Case, int]]:
    """Return what people look at, and how many rows of the large tables that may read.

    A filter reads on until the page is full: if it keeps an eighth of the jobs, that is eight
    pages.
    """
    with_room = 3
    live_and_dead = LIVE + 2 * OPEN_LETTERS
    a_page = PAGE + 1
    middle = get_page(job_rows(), limit=ALL // 2).next_cursor
    dead = JobQueue.objects.filter(status=Status.DLQ).order_by("-pk")[0]
    done = JobQueue.objects.filter(status=Status.COMPLETED).order_by("-pk")[0]
    letter = DeadLetterQueue.objects.filter(resolution="").order_by("pk")[0]
    found: dict[str, tuple[Case, int]] = {
        "jobs": (lambda: get_page(job_rows(), limit=PAGE), a_page),
        "jobs, deep": (lambda: get_page(job_rows(), limit=PAGE, cursor=middle), a_page),
        "pending jobs": (
            lambda: get_page(filter_jobs(job_rows(), status=Status.PENDING), limit=PAGE),
            live_and_dead,
        ),
        "jobs held back": (
            lambda: get_page(filter_jobs(job_rows(), held_back=ANYTHING), limit=PAGE),
            live_and_dead,
        ),
        "dead jobs": (
            lambda: get_page(filter_jobs(job_rows(), status=Status.DLQ), limit=PAGE),
            2 * OPEN_LETTERS,
        ),
        # There are few of these, anywhere in history; the index that has them has dead jobs, too.
        **{
            f"{status} jobs": (
                lambda status=status: get_page(filter_jobs(job_rows(), status=status), limit=PAGE),
                OPEN_LETTERS + 2 * ENDED_OTHERWISE,
            )
            for status in (Status.FAILED, Status.CANCELED)
        },
        "failed jobs of a type": (
            lambda: listed(status=Status.FAILED, job_type="none"),
            OPEN_LETTERS + 2 * ENDED_OTHERWISE,
        ),
        "jobs of a category": (
            lambda: listed(category=Category.SYNC),
            a_page * len(Category) * with_room,
        ),
        # An index of the user's jobs and dead letters leads to them, wherever in history they are.
        "jobs of a user": (
            lambda: get_page(filter_jobs(job_rows(), user=OLD_USER), limit=PAGE),
            2 * OF_OLD_USER,
        ),
        "dead letters of a user": (
            lambda: get_page(filter_dead_letters(dead_letters(), user=OLD_USER), limit=PAGE),
            20 * OF_OLD_USER,
        ),
        **{
            f"search {text}": (lambda text=text: search(text), most)
            for text, most in (
                ("type:none", READ),
                ("correlation:none error:none", READ),
                (f"user:{OLD_USER} key:none created:<2099-01-01", READ),
                ("none", READ),
                ("payload.order:17 type:none created:30d", READ),
                ("status:pending error:none", live_and_dead),
                ("reason:exhausted type:none", READ + 2 * OPEN_LETTERS),
                (str(dead.pk), 2 * a_page),
            )
        },
        "open dead letters": (
            lambda: get_page(filter_dead_letters(dead_letters(), resolution=OPEN), limit=PAGE),
            2 * OPEN_LETTERS,
        ),
        "dead letters": (lambda: get_page(dead_letters(), limit=PAGE), 2 * a_page),
        "a dead job": (lambda: details_of(dead), a_page),
        "a completed job": (lambda: details_of(done), a_page),
        "a dead letter": (lambda: dead_letters().get(pk=letter.pk), 2),
        "groups of dead letters": (
            lambda: dead_letter_groups(database_now()),
            OPEN_LETTERS + len(ERRORS),
        ),
        "jobs that a bulk operation is for": (lambda: totals(BulkOperation.CANCEL), LIVE),
        "letters that one is for": (lambda: totals(BulkOperation.DISCARD), OPEN_LETTERS),
        "statistics": (queue_stats, live_and_dead),
        "dashboard": (lambda: dashboard(RequestFactory().get("/"), {}), live_and_dead),
    }
    return found


def scopes(firms: list[Firm]) -> list[tuple[int, AbstractContextManager[None]]]:
    """Return each viewer: staff, and a firm's member, whose lists read past other firms' rows."""
    return [(1, all_firms("test")), (FIRMS, firm_scope(firms[0]))]


def faults_on_postgresql(statement: str, most: int) -> Iterator[str]:
    """Yield where the statement reads a whole table, or too many rows."""
    ((plan,),) = table_rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.replace('%', '%%')}")
    parsed = json.loads(plan) if isinstance(plan, str) else plan
    scans = [node for node in nodes(parsed[0]["Plan"]) if node.get("Relation Name") in TABLES]
    for node in scans:
        if node["Node Type"] == "Seq Scan":
            yield f"reads all of {node['Relation Name']}"
    seen = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    touched = sum(sum(node.get(name, 0) for name in seen) * node["Actual Loops"] for node in scans)
    if touched > most:
        yield f"reads {touched:,.0f} rows, at most {most:,} are needed"


def faults_on_sqlite(statement: str, _: int) -> Iterator[str]:
    """Yield where the statement uses no index."""
    for *_ids, step in table_rows(f"EXPLAIN QUERY PLAN {statement.replace('%', '%%')}"):
        by_itself = step.startswith(("SCAN", "SEARCH")) and " USING " not in step
        if by_itself and not re.search("subquery|qualify", step, re.IGNORECASE):
            yield step


def test_what_people_look_at_goes_by_an_index_and_reads_no_more_than_it_shows(
    firms: list[Firm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", SEARCHED)
    monkeypatch.setattr(lists, "READING_SECONDS", 0)
    faults_of = {"postgresql": faults_on_postgresql, "sqlite": faults_on_sqlite}[connection.vendor]
    faults = []
    for others, scope in scopes(firms):
        with scope:
            for name, (case, most) in cases().items():
                asked = statements(case)
                assert asked, name
                faults += [
                    f"{name}, {others} firms: {fault}\n  {statement[:400]}"
                    for statement in asked
                    for fault in faults_of(statement, most * others)
                ]
    assert faults == []


@pytest.mark.parametrize(
    "selection",
    [
        Selection,
        lambda: Selection(filters={"status": "pending"}),
        lambda: Selection(filters={"search": "status:pending"}),
        lambda: Selection(rows=filter_jobs(job_rows(), status="pending")),
    ],
)
def test_what_makes_jobs_live_is_said_once(
    firms: list[Firm], selection: Callable[[], Selection]
) -> None:
    # If a condition is there twice, PostgreSQL expects the square of its share of rows.
    with all_firms("test"):
        rows = eligible_rows(BulkOperation.CANCEL, selection())
        assert str(rows.values("pk").query).count('"waiting"') == 1
        assert rows.count() > 0
        assert set(rows.values_list("status", flat=True)) <= LIVE_STATUSES


def test_what_is_counted_of_dead_letters_is_read_without_their_jobs(firms: list[Firm]) -> None:
    counts = (
        queue_stats,
        lambda: totals(BulkOperation.DISCARD),
        lambda: list(
            filter_dead_letters(dead_letters(), category="sync", job_type="x").values("pk")
        ),
    )
    with all_firms("test"):
        for count in counts:
            asked = statements(count)
            assert any('"jobs_deadletterqueue"' in sql for sql in asked)
            assert not [sql for sql in asked if all(f'"{table}"' in sql for table in TABLES)]


def test_jobs_are_counted_once_for_a_bulk_operation(firms: list[Firm]) -> None:
    with all_firms("test"):
        assert len(statements(lambda: totals(BulkOperation.CANCEL))) == 1
        found = totals(BulkOperation.CANCEL)
    assert found.count == sum(jobs for _, jobs in found.firms) == LIVE
    assert sum(cause.count for cause in found.causes) == LIVE
