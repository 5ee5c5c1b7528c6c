"""A verdict at the moment when a page of labels begins, which takes no thread's lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from mail.errors import MailboxWaits
from mail.labels import LABEL_NAMES
from mail.llm.base import Category
from mail.models import Action, ActionStatus, ActionType, MailAccount, Message
from mail.services.actions.actions import request_action
from mail.services.actions.perform import perform_action
from mail.services.deciding import label_page
from mail.services.deciding.classify import classify_thread
from mail.services.deciding.classify_page import classify_page
from mail.services.mailboxes.modes import suggest_only
from tenants.scope import firm_scope
from tests.mail.mail_kit import FixedClassifier, Mailbox, jobs, stored
from tests.mail.mirror_machine import complete
from tests.support.databases import is_waited_for, postgresql_only, unpooled_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-09"), postgresql_only]


def judge_as_waiting(mailbox: Mailbox, message: Message) -> None:
    verdict = FixedClassifier(Category.WAITING)
    classify_thread(
        mailbox.account, message.thread_id, message.pk, verdict, job_id=uuid4(), force=True
    )


def let_it_wait(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Start `meanwhile` once a page has begun; the page goes on when that waits for it."""
    start = label_page._start

    def slow(account: MailAccount, ids: Sequence[UUID], job_id: UUID) -> list[Action]:
        started = start(account, ids, job_id)
        meanwhile()
        wait_until(is_waited_for, "the verdict waits for the page")
        return started

    monkeypatch.setattr(label_page, "_start", slow)


def test_a_verdict_waits_for_a_page_of_labels_that_begins_at_that_moment(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mail.services.queueing.SMALLEST_PAGE", 1)
    mailbox.receive()
    (message,) = mailbox.store_all()
    account, classifier = mailbox.account, FixedClassifier(Category.FYI)
    classify_page(account, [message.pk], classifier, job_id=uuid4())
    (page,), (action,) = jobs("label.page.gmail"), stored(Action)

    def judge() -> Any:
        try:
            judge_as_waiting(mailbox, message)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        verdicts = []
        let_it_wait(monkeypatch, lambda: verdicts.append(pool.submit(judge)))
        label_page.label_page(account, mailbox.gmail, [action.pk], job_id=page.pk)
        with pytest.raises(MailboxWaits):
            verdicts[0].result()
    complete(page.pk)

    judge_as_waiting(mailbox, message)
    for one in stored(Action):
        if one.status == ActionStatus.QUEUED:
            perform_action(account, mailbox.gmail, one.pk, job_id=uuid4())
    state = mailbox.labels(message.gmail_message_id) & set(LABEL_NAMES.values())
    assert state == {LABEL_NAMES[Category.WAITING.label]}


def put_page_on(mailbox: Mailbox) -> None:
    ids = [action.pk for action in stored(Action)]
    label_page.label_page(mailbox.account, mailbox.gmail, ids, job_id=uuid4())


def fail_page(mailbox: Mailbox) -> None:
    ids = [action.pk for action in stored(Action)]
    label_page.fail_actions(mailbox.firm.pk, ids, uuid4(), "Gmail refused it")


def suggest(mailbox: Mailbox) -> None:
    suggest_only(mailbox.account)


@unpooled_only
@pytest.mark.parametrize("change", [put_page_on, fail_page, suggest])
def test_who_changes_several_actions_locks_them_as_a_verdict_does(
    mailbox: Mailbox, change: Callable[[Mailbox], None]
) -> None:
    mailbox.receive()
    (message,) = mailbox.store_all()
    with firm_scope(mailbox.firm):
        for category in (Category.FYI, Category.WAITING):
            label = {"label": LABEL_NAMES[category.label]}
            request_action(message, ActionType.APPLY_LABEL, label)
        first, second = Action.objects.order_by("pk")
        # PostgreSQL reads a changed row after the others, so the two orders of locking would
        # differ.
        Action.objects.filter(pk=first.pk).update(error="")

    def run() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET enable_indexscan = off; SET enable_bitmapscan = off")
            change(mailbox)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with firm_scope(mailbox.firm):
            rows = Action.objects.select_for_update(nowait=True, no_key=True)
            rows.get(pk=first.pk)
            changed = pool.submit(run)
            wait_until(is_waited_for, "the change waits for the first action")
            rows.get(pk=second.pk)
        changed.result()
