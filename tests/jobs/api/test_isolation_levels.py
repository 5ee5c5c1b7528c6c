"""A project may set a stricter isolation level; a request that then meets another is told so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from psycopg import IsolationLevel

from jobs.api.views import QueueView
from jobs.models import JobQueue
from jobs.queue import enqueue
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.jobs.api.conftest import Api, audit_log, key_for, problem
from tests.queue_kit import rows

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("O-01"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer"),
]

CONFLICT_AT_COMMIT = """
    CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''another won'' USING ERRCODE = ''serialization_failure''; END';
    CREATE CONSTRAINT TRIGGER conflict AFTER UPDATE ON jobs_jobqueue
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION conflict();
"""


@pytest.fixture
def operator(firm: Firm) -> Api:
    return Api(key_for(firm, Role.ADMIN))


@pytest.fixture(params=[IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    """Open every connection with the level, as OPTIONS of the settings would."""

    def isolate(connection: Any, **_: Any) -> None:
        connection.connection.isolation_level = request.param

    connection.close()
    connection_created.connect(isolate)
    yield
    connection_created.disconnect(isolate)
    connection.close()


def in_another_session(work: Callable[[], object]) -> None:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()


def after(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], object]) -> None:
    """Let others commit `work` in the middle of the next request, after this method of its view."""
    method = getattr(QueueView, name)
    waiting = [work]

    def and_then(*args: Any, **options: Any) -> Any:
        found = method(*args, **options)
        while waiting:
            in_another_session(waiting.pop())
        return found

    monkeypatch.setattr(QueueView, name, and_then)


def told_to_try_again(answer: Any) -> bool:
    found = problem(answer, 503)
    assert found["code"] == "try_again"
    assert "nothing was changed" in found["detail"].lower()
    return answer["Retry-After"] == "1"


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("act", ["cancel", "edit"])
def test_an_operation_on_a_job_that_others_change_meanwhile(
    operator: Api, firm: Firm, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    job = JobQueueFactory(firm=firm)

    def change() -> None:
        with all_firms("test"):
            JobQueue.objects.filter(pk=job.pk).update(progress_note="seen")

    def send() -> Any:
        if act == "edit":
            return operator.patch(f"jobs/{job.pk}/", {"priority": 0})
        return operator.post(f"jobs/{job.pk}/cancel/")

    after(monkeypatch, "get_object", change)
    assert told_to_try_again(send())
    assert audit_log() == []
    assert send().status_code == 200
    assert len(audit_log()) == 1


@pytest.mark.usefixtures("level")
def test_an_enqueue_whose_key_another_takes_meanwhile(
    operator: Api, firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"job_type": "noop", "payload": {}, "idempotency_key": "k"}
    after(monkeypatch, "firm_named", lambda: enqueue("noop", firm=firm, idempotency_key="k"))
    assert told_to_try_again(operator.post("jobs/", body))
    answer = operator.post("jobs/", body)
    assert answer.status_code == 200
    assert [str(one.pk) for one in rows(JobQueue)] == [answer.json()["job_id"]]


def test_a_conflict_that_the_commit_finds(operator: Api, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm)
    with connection.cursor() as cursor:
        cursor.execute(CONFLICT_AT_COMMIT)
    try:
        assert told_to_try_again(operator.post(f"jobs/{job.pk}/cancel/"))
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION conflict CASCADE")
    assert operator.post(f"jobs/{job.pk}/cancel/").status_code == 200
