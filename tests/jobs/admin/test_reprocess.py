"""The editor for the payload of a dead letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from jobs.engine.redaction import REDACTED_VALUE
from jobs.models import DeadLetterQueue, JobQueue
from jobs.registry import JobPayload, JobType, job
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, envelope, task_call
from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import audit_entries, now, operation_url, submit

pytestmark = pytest.mark.req("D-02", "O-03")


class ExportPayload(JobPayload):
    """A payload with a report and a number of copies."""

    report: str
    copies: int


@pytest.fixture
def letter(acme: FirmRows, job_types: dict[str, JobType]) -> DeadLetterQueue:
    """Return an open dead letter whose payload can be mended."""
    job("test.export", category="export", payload=ExportPayload)(lambda payload, ctx: None)
    dead = JobQueueFactory(
        firm=acme.firm,
        status="dlq",
        job_type="test.export",
        category="export",
        attempts=3,
        payload={**envelope(acme.firm.pk), "report": "Grüße", "copies": 0},
    )
    return DeadLetterQueueFactory(original_job=dead, reason="exhausted")


def job_of(letter: DeadLetterQueue) -> JobQueue:
    with all_firms("test"):
        found: JobQueue = JobQueue.objects.get(pk=letter.original_job_id)
        return found


def edited(letter: DeadLetterQueue, **changes: Any) -> str:
    """Return the payload with these changes, as the editor would send it."""
    return json.dumps({**job_of(letter).payload, **changes})


def test_the_editor_shows_the_payload_readably(operator: Client, letter: DeadLetterQueue) -> None:
    form = operator.get(operation_url(letter, "reprocess")).context["form"]
    assert json.loads(form["payload"].value()) == job_of(letter).payload
    assert '  "report": "Grüße"' in form["payload"].value()


def test_the_page_says_whether_the_payload_would_be_refused_again(
    operator: Client, letter: DeadLetterQueue
) -> None:
    page = operation_url(letter, "reprocess")
    assert "refused again" not in operator.get(page).content.decode()
    with all_firms("test"):
        JobQueue.objects.filter(pk=letter.original_job_id).update(
            payload={**envelope(letter.firm_id), "report": "June"}
        )
    assert "will be refused again (copies: Field required)" in operator.get(page).content.decode()
    with all_firms("test"):
        JobQueue.objects.filter(pk=letter.original_job_id).update(job_type="test.gone")
    assert "refused again (its type is not known here)" in operator.get(page).content.decode()


@pytest.mark.req("T-05")
def test_an_edited_payload_is_checked_kept_and_logged(
    operator: Client, letter: DeadLetterQueue
) -> None:
    submit(
        operator, letter, "reprocess", payload=edited(letter, copies=2), priority="0", reason="two"
    )
    mended = job_of(letter)
    assert (mended.status, mended.series, mended.priority) == ("pending", 2, 0)
    assert mended.payload["copies"] == 2
    assert (now(letter).resolution, now(letter).resolution_note) == ("reprocessed", "two")
    (entry,) = audit_entries(letter.pk)
    assert entry.before["payload"] == {"copies": 0}
    assert entry.after["payload"] == {"copies": 2}
    assert (entry.door, entry.reason) == ("admin", "two")


def test_a_payload_left_as_it_is_counts_as_no_edit(
    operator: Client, letter: DeadLetterQueue
) -> None:
    before = job_of(letter)
    submit(operator, letter, "reprocess")
    after = job_of(letter)
    assert (after.status, after.priority, after.payload) == (
        "pending",
        before.priority,
        before.payload,
    )
    assert "payload" not in audit_entries(letter.pk)[0].after


def make_task_call(letter: DeadLetterQueue, **changes: Any) -> None:
    """Turn the dead letter's job into a call of a task, whose arguments may hold secrets."""
    with all_firms("test"):
        JobQueue.objects.filter(pk=letter.original_job_id).update(
            job_type="django_task", payload={**envelope(letter.firm_id), **task_call(**changes)}
        )


def shown_payload(operator: Client, letter: DeadLetterQueue) -> dict[str, Any]:
    """Return the payload that the editor shows; the page contains no secrets."""
    page = operator.get(operation_url(letter, "reprocess"))
    assert "hunter" not in page.content.decode()
    shown: dict[str, Any] = json.loads(page.context["form"]["payload"].value())
    return shown


SIGN_IN = {"host": "old.example", "password": "hunter2", "nested": [{"token": "hunter3"}]}


def test_masked_secrets_are_not_written_back(operator: Client, letter: DeadLetterQueue) -> None:
    make_task_call(letter, kwargs=SIGN_IN)
    shown = shown_payload(operator, letter)
    assert shown["kwargs"] == {
        "host": "old.example",
        "password": REDACTED_VALUE,
        "nested": [{"token": REDACTED_VALUE}],
    }
    submit(operator, letter, "reprocess")
    assert job_of(letter).payload["kwargs"] == SIGN_IN


@pytest.mark.req("T-05")
def test_an_edit_beside_secrets_keeps_them_and_logs_none(
    operator: Client, letter: DeadLetterQueue
) -> None:
    make_task_call(letter, kwargs=SIGN_IN)
    shown = shown_payload(operator, letter)
    shown["kwargs"]["host"] = "new.example"
    assert submit(operator, letter, "reprocess", payload=json.dumps(shown)).status_code == 302
    assert job_of(letter).payload["kwargs"] == {**SIGN_IN, "host": "new.example"}
    (entry,) = audit_entries(letter.pk)
    assert entry.before["payload"]["kwargs"]["host"] == "old.example"
    assert entry.after["payload"] == {"kwargs": shown["kwargs"]}
    assert "hunter" not in json.dumps([entry.before, entry.after])


@pytest.mark.req("T-05")
def test_a_new_secret_is_stored_and_the_log_says_only_where(
    operator: Client, letter: DeadLetterQueue
) -> None:
    make_task_call(letter, kwargs=SIGN_IN)
    shown = shown_payload(operator, letter)
    shown["kwargs"]["password"] = "hunter4"
    submit(operator, letter, "reprocess", payload=json.dumps(shown))
    assert job_of(letter).payload["kwargs"] == {**SIGN_IN, "password": "hunter4"}
    (entry,) = audit_entries(letter.pk)
    assert "hunter" not in json.dumps([entry.before, entry.after])
    assert entry.after["payload"]["kwargs"]["password"] == REDACTED_VALUE


@pytest.mark.parametrize(
    ("args", "edited", "field"),
    [
        ([], {"kwargs": {"password": REDACTED_VALUE}}, "kwargs.password"),
        ([], {"args": [REDACTED_VALUE]}, "args[0]"),
        # With one entry less, nobody knows which secret belongs to which entry.
        (
            [{"token": "hunter2"}, {"token": "hunter3"}],
            {"args": [{"token": REDACTED_VALUE}]},
            "args[0].token",
        ),
        # Two entries that changed places must not exchange their secrets.
        (
            [{"to": "a", "token": "hunter2"}, {"to": "b", "token": "hunter3"}],
            {"args": [{"to": "b", "token": REDACTED_VALUE}, {"to": "a", "token": REDACTED_VALUE}]},
            "args[0].token",
        ),
    ],
)
def test_a_mask_that_stands_for_no_secret_is_refused(
    operator: Client, letter: DeadLetterQueue, args: list[Any], edited: Any, field: str
) -> None:
    make_task_call(letter, args=args)
    before = job_of(letter).payload
    shown = shown_payload(operator, letter)
    answer = submit(operator, letter, "reprocess", payload=json.dumps({**shown, **edited}))
    assert answer.status_code == 400
    assert answer.context["form"].errors["payload"][0].startswith(f"{field}: is the mask")
    assert (job_of(letter).payload, job_of(letter).status) == (before, "dlq")
    assert audit_entries(letter.pk) == []


def test_true_in_place_of_one_is_an_edit(operator: Client, letter: DeadLetterQueue) -> None:
    make_task_call(letter, args=[1], kwargs={"deep": {"flag": 0}})
    shown = shown_payload(operator, letter)
    changed = {**shown, "args": [True], "kwargs": {"deep": {"flag": False}}}
    submit(operator, letter, "reprocess", payload=json.dumps(changed))
    stored = job_of(letter).payload
    assert stored["args"][0] is True
    assert stored["kwargs"]["deep"]["flag"] is False
    assert audit_entries(letter.pk)[0].after["payload"].keys() == {"args", "kwargs"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "This field is required"),
        ("{", "not JSON (line 1, column 2"),
        ('{"a": 1,}', "not JSON (line 1"),
        ("[1, 2]", "must be an object"),
        ("null", "must be an object"),
        ("[" * 100_000, "too deep or too large"),
        ("9" * 5_000, "too deep or too large"),
        ('{"copies": 1, "copies": 2}', "copies: this key is given twice"),
        ('{"report": {"a": [{"b": 1, "b": 1}]}}', "b: this key is given twice"),
        (r'{"\ud800": 1, "\ud800": 2}', "\N{REPLACEMENT CHARACTER}: this key is given twice"),
        ('{"report": NaN}', "report: NaN and infinity are not JSON"),
        ('{"password": "hunter2"}', "password: payloads carry no secrets"),
        ("{}", "report: Field required"),
        ('{"report": "\\u0000"}', "report: the NUL character"),
    ],
)
def test_a_bad_payload_is_refused_by_field_and_nothing_is_lost(
    operator: Client, letter: DeadLetterQueue, text: str, told: str
) -> None:
    answer = submit(operator, letter, "reprocess", payload=text, reason="my note", priority="1")
    assert answer.status_code == 400
    form = answer.context["form"]
    assert any(told in error for error in form.errors["payload"]), form.errors
    assert (form["payload"].value(), form["reason"].value(), form["priority"].value()) == (
        text,
        "my note",
        "1",
    )
    assert now(letter).resolution == ""
    assert job_of(letter).status == "dlq"
    assert audit_entries(letter.pk) == []


def test_each_wrong_field_is_named(operator: Client, letter: DeadLetterQueue) -> None:
    text = edited(letter, copies="many", colour="red")
    errors = submit(operator, letter, "reprocess", payload=text).context["form"].errors["payload"]
    assert sorted(error.partition(":")[0] for error in errors) == ["colour", "copies"]


@pytest.mark.req("T-03")
def test_a_payload_for_another_firm_is_refused(
    operator: Client, letter: DeadLetterQueue, globex: FirmRows
) -> None:
    text = edited(letter, copies=1, tenant_id=globex.firm.pk)
    answer = submit(operator, letter, "reprocess", payload=text)
    assert answer.status_code == 400
    assert "tenant_id: is not the id of the job's firm" in answer.context["form"].errors["payload"]


@pytest.mark.parametrize("priority", ["4", "-1", "urgent"])
def test_an_unknown_priority_is_refused(
    operator: Client, letter: DeadLetterQueue, priority: str
) -> None:
    answer = submit(operator, letter, "reprocess", priority=priority)
    assert answer.status_code == 400
    assert answer.context["form"].errors.keys() == {"priority"}
