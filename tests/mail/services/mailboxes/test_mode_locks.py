"""A change of a mailbox's mode and the jobs that work in the mailbox do not deadlock."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection

from mail.labels import LABEL_NAMES, LabelKey
from mail.models import ActionStatus, ActionType, MailAccount, Message
from mail.services.actions import snooze
from mail.services.actions.actions import fail_action, request_action
from mail.services.drafting import cleanup
from mail.services.mailboxes import modes
from mail.services.mailboxes.change import lock_mailbox
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), postgresql_only]


def suggest_when_connected(account: MailAccount) -> None:
    """Change the mode as the connection of a mailbox does that is active in another firm."""
    with firm_scope(account.firm_id):
        lock_mailbox(account)
        modes.suggest_only(account)


@pytest.mark.parametrize("change", [modes.suggest_only, suggest_when_connected])
def test_an_action_that_ends_at_that_moment_is_no_deadlock(
    mailbox: Mailbox, change: Callable[[MailAccount], None]
) -> None:
    mailbox.receive()
    (message,) = mailbox.store_all()
    with firm_scope(mailbox.firm):
        action = request_action(message, ActionType.STAR)

    def suggest_only() -> None:
        try:
            change(mailbox.account)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        # The action's event refers to the mailbox, whose row the database therefore locks at the
        # commit.
        with firm_scope(mailbox.firm):
            fail_action(mailbox.firm.pk, action.pk, "Gmail refused it")
            changed = pool.submit(suggest_only)
            wait_until(is_waited_for, "the change waits for the action")
        changed.result()
    with firm_scope(mailbox.firm):
        action.refresh_from_db()
    assert action.status == ActionStatus.FAILED


def test_a_thread_that_is_marked_done_at_that_moment_is_no_deadlock(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.receive()
    (message,) = mailbox.store_all()
    with firm_scope(mailbox.firm):
        actions = [
            request_action(message, ActionType.SNOOZE, {"amount": 1, "units": "hours"}),
            request_action(message, ActionType.APPLY_LABEL, {"label": LABEL_NAMES[LabelKey.FYI]}),
        ]

    def suggest_only() -> None:
        try:
            modes.suggest_only(mailbox.account)
        finally:
            connection.close()

    end_snoozes = snooze.end_snoozes
    changed: list[Future[None]] = []

    with ThreadPoolExecutor(1) as pool:

        def late(messages: Collection[Message]) -> None:
            changed.append(pool.submit(suggest_only))
            wait_until(is_waited_for, "the change waits for the thread's actions")
            end_snoozes(messages)

        monkeypatch.setattr(cleanup, "end_snoozes", late)
        cleanup.mark_done(mailbox.account, message.thread_id)
        changed[0].result()
    with firm_scope(mailbox.firm):
        for action in actions:
            action.refresh_from_db()
    assert {action.status for action in actions} == {ActionStatus.CANCELED}
