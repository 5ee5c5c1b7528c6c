"""Stored JSON that neither handlers nor doors would store: every door still works.

A restored dump, another program or an earlier version may have written it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from interfaces.commands import EXIT_REFUSED
from jobs.models import DeadLetterQueue, JobQueue, JobStep, Schedule
from jobs.operations import jobs
from jobs.registry import JobPayload, JobType, job
from jobs.testing.run import drain
from tenants.models import AuditEntry, Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, envelope
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import audit_entries, now, operation_url, submit
from tests.jobs.api.conftest import Api, key_for
from tests.jobs.management.conftest import Run, run

__all__ = ["run"]

pytestmark = [pytest.mark.django_db, pytest.mark.req("D-02", "O-01", "O-03", "O-04", "J-12")]

STORED = {
    "a list": "[1]",
    "null": "null",
    "5,000 digits": '{"label": ' + "9" * 5_000 + "}",
    "beyond every float": '{"label": [1e5000, -1e5000]}',
    "rather deep": '{"label": [' * 90 + "]}" * 90,
    "deep": '{"label": [' * 450 + "]}" * 450,
    "many brackets": json.dumps({"label": ["[{" * 300, *[{}] * 300]}),
    "deeper": '{"label": ' + "[" * 3_000 + "]" * 3_000 + "}",
    "half a character": r'{"label": "x\ud800", "\udfff": "y"}',
    "a null character": r'{"label": "x\u0000"}',
    "long": json.dumps({"label": "x" * 2**19}),
}
# What each door shows of this JSON.
SHOWN = {
    "a list": [1],
    "null": None,
    "5,000 digits": {"label": "(beyond every number)"},
    "beyond every float": {"label": ["(beyond every number)", "(-beyond every number)"]},
    "rather deep": json.loads(
        '{"label": [' * 32 + '"(nested too deeply to be shown)"' + "]}" * 32,
    ),
    "deep": "(cannot be read: 5,850 characters of JSON, nested too deeply)",
    "many brackets": {"label": ["[{" * 300, *[{}] * 300]},
    "deeper": "(cannot be read: 6,011 characters of JSON, nested too deeply)",
    "half a character": {"label": "x\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}": "y"},
    "a null character": {"label": "x\N{REPLACEMENT CHARACTER}"},
    "long": {"label": "x" * 2**19},
}
REFUSED = {
    "postgresql": {"half a character", "a null character"},
    "sqlite": {"deeper"},
}
CARRIED = re.compile(r"\b(payload|result)\b")


class LabelPayload(JobPayload):
    """A payload whose label is any JSON."""

    label: Any


@pytest.fixture(autouse=True)
def label_type(job_types: dict[str, JobType]) -> None:
    """Declare a type whose label is any JSON."""

    @job("test.label", category="export", payload=LabelPayload)
    def label(payload: LabelPayload, ctx: Any) -> None:
        pass


@dataclass(frozen=True)
class Doors:
    """The pages, REST and commands, used by an admin of the firm; each returns its answer."""

    firm: Firm
    browser: Client
    rest: Api
    cli: Callable[..., Run]

    def page(self, address: str) -> str:
        answer = self.browser.get(address)
        assert answer.status_code == 200, answer.content[:500]
        return str(answer.content.decode())

    def rest_get(self, path: str) -> Any:
        answer = self.rest.get(path)
        assert answer.status_code == 200, answer.content[:500]
        return json.loads(answer.content)

    def command(self, *arguments: str) -> str:
        ended = self.cli(*arguments)
        assert ended.code == 0, ended.err
        # A terminal has to be able to print the output.
        return ended.out.encode().decode()


@pytest.fixture
def doors(firm: Firm, run: Callable[..., Run]) -> Doors:
    """Return the doors of an admin of the firm."""
    api = Api(key_for(firm, Role.ADMIN, "key@acme.example"))
    return Doors(firm, browser_of(firm, Role.ADMIN), api, run)


def stored_in(row: Any, column: str, what: str) -> None:
    """Write the JSON without any check; skip the test if this database refuses it."""
    cast = "::jsonb" if connection.vendor == "postgresql" else ""
    key = str(row.pk) if connection.vendor == "postgresql" else row.pk.hex
    statement = (
        f"UPDATE {row._meta.db_table} SET {column} = %s{cast} WHERE {row._meta.pk.column} = %s"
    )
    refused = False
    try:
        with all_firms("test"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [STORED[what], key])
            assert cursor.rowcount == 1
    except DatabaseError:
        refused = True
    assert refused == (what in REFUSED[connection.vendor])
    if refused:
        pytest.skip("the database refuses it")


def dead_letter(firm: Firm, what: str) -> DeadLetterQueue:
    """Return the open dead letter of a job with this JSON as payload and result."""
    dead = JobQueueFactory(
        firm=firm,
        status="dlq",
        job_type="test.label",
        category="export",
        completed_at=timezone.now(),
    )
    stored_in(dead, "payload", what)
    stored_in(dead, "result", what)
    with all_firms("test"):
        step: Any = JobStep.objects.create(firm=firm, job_id=dead.pk, name="step", result={})
        stored_in(step, "result", what)
    return DeadLetterQueueFactory(original_job=dead, reason="invalid_payload")


def status_of(letter: DeadLetterQueue) -> str:
    with all_firms("test"):
        found: str = JobQueue.objects.values_list("status", flat=True).get(
            pk=letter.original_job_id
        )
        return found


@pytest.mark.parametrize("what", STORED)
def test_every_door_shows_it(doors: Doors, what: str) -> None:
    letter = dead_letter(doors.firm, what)
    job_id = letter.original_job_id

    assert len(doors.rest_get("jobs/")["results"]) == 1
    assert len(doors.rest_get("dlq/")["results"]) == 1
    assert doors.rest_get(f"dlq/{letter.pk}/")["id"] == str(letter.pk)
    shown = doors.rest_get(f"jobs/{job_id}/")
    assert [shown["payload"], shown["result"], shown["steps"][0]["result"]] == [SHOWN[what]] * 3

    for model in ("jobqueue", "deadletterqueue"):
        assert "test.label" in doors.page(reverse(f"admin:jobs_{model}_changelist"))
    for address in (
        reverse("admin:jobs_jobqueue_change", args=[job_id]),
        operation_url(letter, "change"),
        operation_url(letter, "reprocess"),
    ):
        doors.page(address)

    assert str(job_id) in doors.command("jobs", "list", "--json")
    assert str(letter.pk) in doors.command("dlq", "list", "--json")
    assert json.loads(doors.command("jobs", "show", str(job_id), "--json")) == shown
    for command in ("jobs list", f"jobs show {job_id}", "dlq list", f"dlq show {letter.pk}"):
        assert doors.command(*command.split())
    assert doors.cli("check_jobs").code == EXIT_REFUSED


def test_no_list_reads_what_jobs_carry(doors: Doors) -> None:
    dead_letter(doors.firm, "a list")
    with CaptureQueriesContext(connection) as asked:
        for path in ("jobs/", "dlq/"):
            assert doors.rest_get(path)["results"]
        for model in ("jobqueue", "deadletterqueue"):
            assert "test.label" in doors.page(reverse(f"admin:jobs_{model}_changelist"))
        for command in ("jobs", "dlq"):
            assert doors.command(command, "list")
    assert [query["sql"] for query in asked if CARRIED.search(query["sql"])] == []


@pytest.mark.parametrize("what", STORED)
@pytest.mark.req("T-05")
def test_a_correct_payload_mends_it_at_every_door(doors: Doors, what: str) -> None:
    good = {**envelope(doors.firm.pk), "label": "mended"}
    letters = [dead_letter(doors.firm, what) for _ in range(3)]
    by_rest, by_page, by_command = letters

    answer = doors.rest.post(f"dlq/{by_rest.pk}/reprocess/", {"payload": good})
    assert answer.status_code == 200, answer.content[:500]
    answer = submit(doors.browser, by_page, "reprocess", payload=json.dumps(good))
    assert answer.status_code == 302, answer.content
    doors.command("dlq", "reprocess", str(by_command.pk), "--payload", json.dumps(good))

    for letter in letters:
        (entry,) = audit_entries(letter.pk)
        assert entry.after["payload"]["label"] == "mended"
        assert "payload" in entry.before
        doors.page(reverse("admin:tenants_auditentry_change", args=[entry.pk]))
    drain()
    assert [status_of(letter) for letter in letters] == ["completed"] * 3


Act = Callable[[Doors, DeadLetterQueue], Any]
ACTS: dict[str, tuple[str, Act]] = {
    "retry by REST": (
        "pending",
        lambda doors, letter: doors.rest.post(f"jobs/{letter.original_job_id}/retry/"),
    ),
    "reprocess by page": (
        "pending",
        lambda doors, letter: submit(doors.browser, letter, "reprocess"),
    ),
    "discard by command": (
        "failed",
        lambda doors, letter: doors.command("dlq", "discard", str(letter.pk), "--reason", "old"),
    ),
    "escalate by REST": (
        "dlq",
        lambda doors, letter: doors.rest.post(f"dlq/{letter.pk}/escalate/", {"reason": "look"}),
    ),
    "cancel by page": (
        "canceled",
        lambda doors, letter: submit(doors.browser, sent_round_again(letter), "cancel"),
    ),
}


def sent_round_again(letter: DeadLetterQueue) -> JobQueue:
    jobs.retry(letter.original_job_id)
    with all_firms("test"):
        found: JobQueue = JobQueue.objects.get(pk=letter.original_job_id)
        return found


@pytest.mark.parametrize("what", STORED)
def test_every_act_still_works_and_leaves_the_payload_as_it_is(doors: Doors, what: str) -> None:
    for name, (status, act) in ACTS.items():
        letter = dead_letter(doors.firm, what)
        before = payload_text(letter)
        answer = act(doors, letter)
        assert isinstance(answer, str) or answer.status_code in (200, 302), (name, answer.content)
        assert status_of(letter) == status, name
        assert payload_text(letter) == before, name
    with all_firms("test"):
        (canceled,) = AuditEntry.objects.filter(act="job.cancel")
    doors.page(reverse("admin:tenants_auditentry_change", args=[canceled.pk]))


def payload_text(letter: DeadLetterQueue) -> str:
    """Return the stored payload as a text."""
    cast = "::text" if connection.vendor == "postgresql" else ""
    pk = letter.original_job_id
    key = str(pk) if connection.vendor == "postgresql" else pk.hex
    with connection.cursor() as cursor, all_firms("test"):
        cursor.execute(f"SELECT payload{cast} FROM jobs_jobqueue WHERE job_id = %s", [key])
        (text,) = cursor.fetchone()
        return str(text)


@pytest.mark.parametrize("what", STORED)
@pytest.mark.req("S-02")
def test_a_schedule_that_carries_it_is_shown_and_mended(doors: Doors, what: str) -> None:
    with all_firms("test"):
        row = Schedule.objects.create(
            firm=doors.firm, name="nightly", job_type="test.label", cron="0 3 * * *"
        )
    stored_in(row, "payload", what)
    assert len(doors.rest_get("schedules/")["results"]) == 1
    assert doors.rest_get(f"schedules/{row.pk}/")["payload"] == SHOWN[what]
    doors.page(reverse("admin:jobs_schedule_changelist"))
    doors.page(operation_url(row, "change"))
    assert doors.command("schedules", "list")
    for act in ("pause", "resume"):
        answer = submit(doors.browser, row, act)
        assert answer.status_code == 302, answer.content
    if not isinstance(now(row).payload, dict):
        assert submit(doors.browser, row, "run").status_code == 409
    answer = submit(doors.browser, row, "edit", payload='{"label": 1}')
    assert answer.status_code == 302, answer.content
    assert now(row).payload["label"] == 1
    for entry in audit_entries(row.pk):
        doors.page(reverse("admin:tenants_auditentry_change", args=[entry.pk]))
