"""The rehearsal of a dead letter in the admin."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from jobs.models import JobQueue
from tenants.models import Role
from tests.factories.jobs import envelope
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, now, operation_url, submit

pytestmark = pytest.mark.req("O-07", "O-03")


@pytest.fixture
def developer(acme: FirmRows) -> Client:
    """Return the browser of a developer of the first firm."""
    return browser_of(acme.firm, Role.DEVELOPER)


def edited(acme: FirmRows, **changes: Any) -> str:
    return json.dumps({**envelope(acme.firm.pk), **changes})


def test_the_page_shows_what_the_job_would_do(developer: Client, acme: FirmRows) -> None:
    page = submit(developer, acme.dead_letter, "rehearse")
    assert page.status_code == 200
    text = page.content.decode()
    for part in ("TimeoutError: no answer", "jobs_schedule", "3 inserted", "1 deleted"):
        assert part in text
    for part in ("mail.example:443", "2 times", "charge", "did not run", "charged", "again in 30"):
        assert part in text
    assert "noop" in text
    assert "for acme, due 2026-03-02 09:14:07 UTC" in text
    assert "for acme, once this job is completed" in text
    assert "hunter2" not in text
    assert now(acme.dead_letter).resolution == ""


@pytest.mark.req("T-05")
def test_a_mended_payload_is_tried_and_can_be_reprocessed_from_there(
    developer: Client, acme: FirmRows, tried_rehearsals: list[Any]
) -> None:
    page = submit(
        developer, acme.dead_letter, "rehearse", payload=edited(acme, correlation_id="mended")
    )
    (change,) = tried_rehearsals
    assert json.loads(change.payload)["correlation_id"] == "mended"
    (entry,) = audit_entries(acme.dead_letter.pk)
    assert (entry.act, entry.door) == ("dead_letter.rehearse", "admin")
    assert (entry.after["outcome"], entry.after["seconds"]) == ("retried", 0.25)
    assert entry.after["payload"] == {"correlation_id": "mended"}

    again = operation_url(acme.dead_letter, "reprocess")
    assert f'formaction="{again}"' in page.content.decode()
    form = page.context["form"]
    sent = developer.post(again, {"seen": page.context["seen"], "payload": form["payload"].value()})
    assert sent.status_code == 302, sent.content
    job: JobQueue = now(acme.dead)
    assert (job.status, job.payload["correlation_id"]) == ("pending", "mended")


def test_an_operator_may_not_and_a_live_job_cannot(
    developer: Client, operator: Client, acme: FirmRows
) -> None:
    address = operation_url(acme.dead_letter, "rehearse")
    assert operator.get(address).status_code == 403
    assert address not in operator.get(operation_url(acme.dead_letter, "change")).content.decode()
    submit(developer, acme.dead_letter, "reprocess")
    refused = developer.get(address)
    assert refused.status_code == 409
    assert "nothing to rehearse" in refused.content.decode()


def test_a_payload_that_is_refused_is_named(developer: Client, acme: FirmRows) -> None:
    page = submit(developer, acme.dead_letter, "rehearse", payload=edited(acme, colour="red"))
    assert page.status_code == 400
    assert "colour" in page.content.decode()
