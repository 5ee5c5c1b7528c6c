"""A decision, and what else is done at that moment, do not deadlock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from mail.models import ActionType, Approval, MailAccount
from mail.services.actions.actions import request_action
from mail.services.approvals import approvals
from mail.services.approvals.approvals import approve
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.modes import suggest_only
from tenants.scope import firm_scope
from tests.jobs.admin.pages import submit
from tests.mail.action_kit import received
from tests.mail.approval_kit import outbound_of, person, reread, waiting
from tests.mail.mail_kit import Mailbox, only, stored
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14"), postgresql_only]


def beside_a_yes(
    monkeypatch: pytest.MonkeyPatch,
    approve_it: Callable[[], Any],
    other: Callable[[], Any],
    *,
    once: str = "_locked",
) -> tuple[Any, Any]:
    """Approve, and start the other call once `once` has taken its locks; return both results."""
    lock, done = getattr(approvals, once), list[Future[Any]]()

    def run() -> Any:
        try:
            return other()
        finally:
            connection.close()

    def late(row_id: UUID) -> Any:
        found = lock(row_id)
        if not done:
            done.append(pool.submit(run))
            wait_until(is_waited_for, "the other waits for the decision")
        return found

    monkeypatch.setattr(approvals, once, late)
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


@pytest.mark.parametrize("stop", [suggest_only, partial(disconnect_account, keep_days=30)])
def test_a_mailbox_that_is_stopped_stops_after_the_decision(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, stop: Callable[[MailAccount], None]
) -> None:
    approval, by = waiting_reply(mailbox), person(mailbox)
    decided, _ = beside_a_yes(
        monkeypatch, lambda: approve(approval, by=by), lambda: stop(mailbox.account)
    )
    assert decided.refused == ""
    assert (reread(approval).status, outbound_of(approval).status) == ("approved", "canceled")


def test_who_decides_in_the_admin_is_answered(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval, by, client = waiting_reply(mailbox), person(mailbox), Client()
    client.force_login(by.user)
    decided, answer = beside_a_yes(
        monkeypatch,
        lambda: approve(approval, by=by),
        lambda: submit(client, approval, "approve"),
        once="lock_replies",
    )
    assert (decided.refused, answer.status_code) == ("", 409)


def waiting_reply(mailbox: Mailbox) -> Approval:
    """Ask for approval of an automatic reply."""
    arrived = received(mailbox)
    with firm_scope(mailbox.firm):
        request_action(mailbox.message(arrived), ActionType.AUTO_REPLY, {"body": "On Monday."})
    found: Approval = only(stored(Approval))
    return found
