"""A job's last error as a text, which is the same in the admin and on the command line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.engine.rescue import STALE_MESSAGE
from jobs.errors import Fatal
from jobs.models import Attempt, JobQueue
from jobs.queries.last_errors import classes_of_last_errors, last_error
from jobs.registry import job
from jobs.retry import RetryPolicy
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import new_member
from tests.jobs.engine.conftest import Add, WorkPayload
from tests.jobs.management.conftest import Run, run  # noqa: F401
from tests.queue_kit import row, work_off

LIST = "/admin/jobs/jobqueue/"


def failed(firm: Firm, error_class: str, message: str, **columns: Any) -> JobQueue:
    """Return a job whose attempts ended with these errors."""
    added: JobQueue = JobQueueFactory(
        firm=firm, **{"status": "failed", "last_error": message, **columns}
    )
    tried(added, error_class, message)
    return added


def tried(one: JobQueue, error_class: str, message: str, end: str = "retried") -> None:
    Attempt.objects.create(
        firm=one.firm,
        job=one,
        series=1,
        number=1,
        end=end,
        error_class=error_class,
        message=message,
    )


def words(one: JobQueue) -> str:
    with all_firms("test"):
        return last_error(JobQueue.objects.get(pk=one.pk))


@pytest.mark.django_db
@pytest.mark.req("O-03")
def test_the_class_is_that_of_the_attempt_that_had_the_error(firm: Firm) -> None:
    with all_firms("test"):
        price = failed(firm, "builtins.KeyError", "'price'")
        tried(price, "Released", "the worker stops", end="released")
        silent = failed(firm, "ValueError", "", status="pending", attempts=1)
        mended = failed(firm, "ValueError", "", status="completed")
        snoozed = JobQueueFactory(firm=firm)
        tried(snoozed, "Released", "", end="released")
        expired = failed(firm, "ValueError", "no such street", last_error="it expired")
        dead = failed(firm, "WorkerDied", "it was silent", last_error=STALE_MESSAGE)
    assert words(price) == "KeyError: 'price'"
    assert words(silent) == "ValueError"
    assert words(mended) == ""
    assert words(snoozed) == ""
    assert words(expired) == "it expired"
    assert words(dead) == f"WorkerDied: {STALE_MESSAGE}"


@pytest.mark.django_db
@pytest.mark.req("O-03")
def test_the_classes_of_many_jobs_cost_one_query(firm: Firm) -> None:
    with all_firms("test"):
        for number in range(5):
            failed(firm, "jobs.errors.Fatal", f"number {number}")
        rows = JobQueue.objects.prefetch_related(classes_of_last_errors())
        with CaptureQueriesContext(connection) as asked:
            found = {last_error(one) for one in rows}
    assert found == {f"Fatal: number {number}" for number in range(5)}
    assert len(asked) == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("O-03", "O-04")
@pytest.mark.usefixtures("work_types")
def test_admin_and_command_line_say_the_same(
    firm: Firm,
    add: Add,
    run: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @job("test.doomed", category="sync", payload=WorkPayload, retry=RetryPolicy(max_attempts=1))
    def doomed(payload: WorkPayload, ctx: object) -> None:
        raise Fatal("no such street")

    parent = add("test.doomed")
    work_off()
    said = "Fatal: no such street"
    assert row(parent).last_error == "no such street"

    client = Client()
    client.force_login(new_member(firm, Role.VIEWER))
    address = reverse("admin:jobs_jobqueue_change", args=[parent])
    page = client.get(address)
    assert page.context["last_error"] == said
    assert [one.error for one, _ in page.context["tree"]] == [said]
    assert f'<p class="queue-code queue-error mt-3">{said}</p>' in page.content.decode()
    assert f">{said}<" in client.get(LIST).content.decode()
    dead_letters = client.get("/admin/jobs/deadletterqueue/").content.decode()
    assert f">{said}<" in dead_letters

    monkeypatch.setenv("COLUMNS", "160")
    assert said in run("jobs", "list").out
    shown: Run = run("jobs", "show", str(parent))
    assert re.search(rf"last error\W+{said}", shown.out)
    assert run("jobs", "show", str(parent), "--json").json["last_error"] == "no such street"
