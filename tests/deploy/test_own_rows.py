"""The role of `deploy/own-rows.sql` reads the jobs on behalf of one user, whatever it sets."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from tenants.models import Firm
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.support.databases import postgresql_only, unpooled_only
from tests.support.paths import ROOT
from tests.support.superuser import superuser_url

pytestmark = [
    postgresql_only,
    unpooled_only,
    pytest.mark.req("J-01"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def jobs(firm: Firm, other_firm: Firm) -> dict[str, set[UUID]]:
    """Return the jobs of two users, by the user's key; each firm has one on nobody's behalf as well."""
    found: dict[str, set[UUID]] = {}
    for user in (UserFactory(), UserFactory()):
        own = [JobQueueFactory(firm=one, user=user) for one in (firm, other_firm)]
        found[str(user.pk)] = {job.job_id for job in own}
    for one in (firm, other_firm):
        JobQueueFactory(firm=one)
    return found


@pytest.fixture
def session(jobs: dict[str, set[UUID]]) -> Iterator[psycopg.Connection]:
    """Return a session in a transaction that locks the table, and is rolled back with the role."""
    with psycopg.connect(superuser_url()) as server:
        server.execute((ROOT / "deploy" / "own-rows.sql").read_bytes())
        server.execute("SET LOCAL ROLE mailroom_user")
        yield server
        server.rollback()


def seen(session: psycopg.Connection, **settings: str) -> set[UUID]:
    for name, value in settings.items():
        session.execute("SELECT set_config(%s, %s, true)", [f"mailroom.{name}", value])
    return {job_id for (job_id,) in session.execute("SELECT job_id FROM jobs_jobqueue")}


def test_a_user_sees_their_own_jobs_of_every_firm(
    session: psycopg.Connection, jobs: dict[str, set[UUID]]
) -> None:
    for user, own in jobs.items():
        assert seen(session, user=user) == own


@pytest.mark.parametrize(
    "settings",
    [{}, {"user": ""}, {"firms": "all"}, {"engine": "on"}, {"firms": "all", "engine": "on"}],
    ids=str,
)
def test_without_a_user_no_row_is_seen_whatever_else_is_set(
    session: psycopg.Connection, settings: dict[str, str]
) -> None:
    assert seen(session, **settings) == set()


def test_the_settings_of_the_service_open_nothing_further(
    session: psycopg.Connection, jobs: dict[str, set[UUID]]
) -> None:
    user, own = jobs.popitem()
    assert seen(session, user=user, firms="all", engine="on") == own


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs_jobqueue SET priority = 0",
        "DELETE FROM jobs_jobqueue",
        "INSERT INTO jobs_jobqueue DEFAULT VALUES",
        "SELECT * FROM jobs_deadletterqueue",
        "SELECT * FROM tenants_firm",
    ],
)
def test_the_role_writes_nothing_and_reads_nothing_else(
    session: psycopg.Connection, jobs: dict[str, set[UUID]], statement: str
) -> None:
    seen(session, user=next(iter(jobs)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(statement)


def test_the_role_reads_by_the_index_by_user(
    session: psycopg.Connection, jobs: dict[str, set[UUID]]
) -> None:
    seen(session, user=next(iter(jobs)))
    session.execute("SET LOCAL enable_seqscan = off")
    plan = session.execute("EXPLAIN SELECT job_id FROM jobs_jobqueue").fetchall()
    assert any("Index Cond: (user_id = " in line for (line,) in plan), plan
