"""A request for a job that runs already leads to another run after it."""

from __future__ import annotations

from typing import Any

import pytest

from mail.gmail.simulator.faults import Fault
from mail.job_handlers import labels as labels_job
from mail.job_handlers import relabel as activation_job
from mail.job_handlers import sync as watch_job
from mail.models import MailLabel, Mode
from mail.services.mailboxes.modes import sync_labels_now
from mail.services.queueing import request_activation, request_label_sync, request_watch
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, drain, jobs, stored

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.req("M-07")
def test_a_label_made_while_labels_are_read_is_found(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = labels_job.refresh_labels

    def read_then_asked_again(*args: Any) -> Any:
        changes = read(*args)
        if not stored(MailLabel):
            mailbox.gmail.create_label("Offers")
            sync_labels_now(mailbox.account)
        return changes

    monkeypatch.setattr(labels_job, "refresh_labels", read_then_asked_again)
    sync_labels_now(mailbox.account)
    drain()
    assert [row.name for row in stored(MailLabel)] == ["Offers"]


@pytest.mark.parametrize(
    ("job_type", "request_run", "module", "step"),
    [
        ("labels.sync.gmail", request_label_sync, labels_job, "refresh_labels"),
        ("watch.renew.gmail", request_watch, watch_job, "renew_watch"),
        ("activate.gmail", request_activation, activation_job, "ensure_own_labels"),
    ],
)
def test_one_more_run_follows_however_often_it_is_asked_for(
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    job_type: str,
    request_run: Any,
    module: Any,
    step: str,
) -> None:
    settings.GMAIL_PUBSUB_TOPIC = "projects/p/topics/mail"
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(mode=Mode.ACTIVE)
        mailbox.account.refresh_from_db()
    runs = 0
    original = getattr(module, step)

    def asked_three_times(*args: Any) -> Any:
        nonlocal runs
        runs += 1
        if runs == 1:
            with firm_scope(mailbox.firm):
                for _ in range(3):
                    request_run(mailbox.account)
        return original(*args)

    monkeypatch.setattr(module, step, asked_three_times)
    with firm_scope(mailbox.firm):
        request_run(mailbox.account)
        request_run(mailbox.account)
    drain()
    assert runs == 2
    assert len(jobs(job_type, live=False)) == 2


def test_one_that_waits_to_be_tried_again_is_enough(mailbox: Mailbox) -> None:
    mailbox.simulator.order_fault(Fault(status=503), method="labels.list")
    with firm_scope(mailbox.firm):
        request_label_sync(mailbox.account)
    drain()
    (waiting,) = jobs("labels.sync.gmail")
    assert waiting.attempts == 1
    with firm_scope(mailbox.firm):
        again = request_label_sync(mailbox.account)
    assert (again.created, again.job_id) == (False, waiting.pk)
