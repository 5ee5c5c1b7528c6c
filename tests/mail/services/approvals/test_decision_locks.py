"""A decision and what else is done at that moment do not wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from mail.models import Approval
from mail.services.approvals import approvals
from mail.services.approvals.approvals import approve
from tests.jobs.admin.pages import submit
from tests.mail.approval_kit import outbound_of, person, reread, waiting
from tests.mail.mail_kit import Mailbox
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14"), postgresql_only]


def beside_a_yes(
    monkeypatch: pytest.MonkeyPatch, approve_it: Callable[[], Any], other: Callable[[], Any]
) -> tuple[Any, Any]:
    """Say yes, and have the other thing done once the question is locked; return both answers."""
    locked, done = approvals._locked, list[Future[Any]]()

    def run() -> Any:
        try:
            return other()
        finally:
            connection.close()

    def late(approval_id: UUID) -> Approval | None:
        found = locked(approval_id)
        if not done:
            done.append(pool.submit(run))
            wait_until(is_waited_for, "the other waits for the decision")
        return found

    monkeypatch.setattr(approvals, "_locked", late)
    with ThreadPoolExecutor(1) as pool:
        decided = approve_it()
        return decided, done[0].result()


def test_who_cancels_the_message_in_the_admin_is_answered(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval, by, client = waiting(mailbox), person(mailbox), Client()
    client.force_login(by.user)
    decided, answer = beside_a_yes(
        monkeypatch,
        lambda: approve(approval, by=by),
        lambda: submit(client, outbound_of(approval), "cancel", reason="No"),
    )
    assert (decided.refused, answer.status_code) == ("", 409)
    assert (reread(approval).status, outbound_of(approval).status) == ("approved", "queued")
