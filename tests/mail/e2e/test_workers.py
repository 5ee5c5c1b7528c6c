"""Mail through real worker processes on the test's database."""

from __future__ import annotations

from pathlib import Path

import pytest

from mail.models import Action, Decision, MailThread, Message
from mail.services.importing.sample_mailbox import import_sample
from mail.services.queueing import request_backfill, request_sync
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, jobs, stored
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
]


@pytest.mark.req("M-03", "M-04", "M-06", "M-09", "M-15")
def test_two_workers_bring_a_mailbox_to_rest(
    mailbox: Mailbox, fleet: Fleet, tmp_path: Path
) -> None:
    imported = import_sample(mailbox.account).imported
    with firm_scope(mailbox.firm):
        request_backfill(mailbox.account)
        request_sync(mailbox.account)
    whole_service = {"DJANGO_SETTINGS_MODULE": "config.settings", "VAR_DIR": str(tmp_path)}
    workers = [fleet.start("--burst", **whole_service) for _ in range(2)]
    assert [worker.wait_for_exit(300) for worker in workers] == [0, 0]
    # A burst does not wait for an action that is snoozed for seconds because of an earlier action
    # on its message, so another worker runs those.
    fleet.start("--no-scheduler", **whole_service)
    wait_until(lambda: not jobs(), "a mailbox at rest")

    assert {job.status for job in jobs(live=False)} == {"completed"}
    messages, decisions = stored(Message), stored(Decision)
    assert len(messages) == imported
    # Each thread has a verdict, except threads with messages of the owner's only.
    answered_for = {message.thread_id for message in messages if not message.outgoing}
    judged = {thread.pk for thread in stored(MailThread) if thread.classification}
    assert judged == answered_for
    assert {action.status for action in stored(Action)} <= {"completed", "canceled"}
    for decision in decisions[-5:]:
        message = next(row for row in messages if row.pk == decision.message_id)
        carried = [name for name in mailbox.labels(message.gmail_message_id) if "/" in name]
        assert len(carried) == 1
    assert mailbox.reload().history_cursor is not None
