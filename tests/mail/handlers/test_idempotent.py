"""Each mail job may run twice: a worker that dies at the worst moment changes nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import JobQueue
from jobs.testing import assert_enqueued, assert_idempotent, drain
from mail.models import ActionType
from mail.services.actions.actions import request_action
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-27")]

# Columns in which a sync notes when it ran, and how often.
NOTED = ["last_sync_at", "sync_generation"]


def check(mailbox: Mailbox, job: str | JobQueue, **payload: Any) -> None:
    """Check that the job is idempotent, also in what it does to the mailbox in Gmail."""
    arrived = [row["id"] for row in mailbox.gmail.list_messages("", max_results=500)["messages"]]
    assert_idempotent(
        job,
        {"account_id": mailbox.account.pk, **payload},
        firm=mailbox.firm,
        snapshot=lambda: [mailbox.labels(gmail_id) for gmail_id in arrived],
        ignore=NOTED,
    )


@pytest.mark.req("M-04")
@pytest.mark.parametrize("job_type", ["sync", "history.sync.gmail", "backfill.gmail"])
def test_reading_a_mailbox(mailbox: Mailbox, job_type: str) -> None:
    mailbox.receive_many(3)
    check(mailbox, job_type)


@pytest.mark.req("M-06")
def test_ingesting_a_message(mailbox: Mailbox) -> None:
    check(mailbox, "ingest.gmail", gmail_message_id=mailbox.receive())


@pytest.mark.req("M-09")
def test_judging_a_thread(mailbox: Mailbox) -> None:
    mailbox.receive()
    mailbox.store_all()
    check(mailbox, *assert_enqueued("classify"))


@pytest.mark.req("M-15")
def test_changing_a_message(mailbox: Mailbox) -> None:
    mailbox.receive()
    (message,) = mailbox.store_all()
    drain()
    with firm_scope(mailbox.firm):
        request_action(message, ActionType.MARK_READ)
    check(mailbox, *assert_enqueued("action.gmail", status="pending"))
