"""A thread keeps one label of its state, even if a sync reads on while Gmail is written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from mail.gmail.client import GmailClient
from mail.labels import LABEL_NAMES
from mail.llm.base import Category
from mail.models import Action, ActionStatus, Message
from mail.services.actions.perform import perform_action
from mail.services.actions.perform_undo import perform_undo
from mail.services.deciding.classify import classify_thread, decide, open_case
from mail.services.deciding.classify import judge as judge_case
from mail.services.deciding.label_page import label_page
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.action_kit import ask_undo, current
from tests.mail.mail_kit import FixedClassifier, Mailbox, letter, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-09")]

Write = Callable[..., Any]


@pytest.fixture
def message(mailbox: Mailbox) -> Message:
    """Return a message of a mailbox that is synced by its history."""
    arrived = mailbox.receive()
    mailbox.store_all()
    sync_mailbox(mailbox.account, mailbox.gmail)
    return mailbox.message(arrived)


def judge(mailbox: Mailbox, message: Message, category: Category) -> None:
    classify_thread(
        mailbox.account,
        message.thread_id,
        message.pk,
        FixedClassifier(category),
        job_id=uuid4(),
        force=True,
    )


def act(mailbox: Mailbox) -> None:
    """Execute what is queued, oldest first."""
    for action in stored(Action):
        if action.status == ActionStatus.QUEUED:
            perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=uuid4())


def act_beside_a_sync(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, perform: Callable[[Mailbox], None] = act
) -> None:
    """Execute the queued actions; just before each write to Gmail, a sync reads other changes."""

    def after_a_sync(write: Write) -> Write:
        def wrapped(self: GmailClient, *args: Any, **kwargs: Any) -> Any:
            mailbox.receive(letter("Another"), labels=("SENT",))
            sync_mailbox(mailbox.account, mailbox.gmail)
            return write(self, *args, **kwargs)

        return wrapped

    with monkeypatch.context() as patched:
        for name in ("modify_message", "batch_modify"):
            patched.setattr(GmailClient, name, after_a_sync(getattr(GmailClient, name)))
        perform(mailbox)


def put_page_on(mailbox: Mailbox) -> None:
    """Execute the queued actions as a page of labels."""
    ids = [action.pk for action in stored(Action)]
    label_page(mailbox.account, mailbox.gmail, ids, job_id=uuid4())


def state_labels(mailbox: Mailbox, message: Message) -> set[str]:
    return mailbox.labels(message.gmail_message_id) & set(LABEL_NAMES.values())


@pytest.mark.parametrize("perform", [act, put_page_on])
def test_a_label_that_no_sync_has_stored_yet_is_replaced(
    mailbox: Mailbox,
    message: Message,
    monkeypatch: pytest.MonkeyPatch,
    perform: Callable[[Mailbox], None],
) -> None:
    judge(mailbox, message, Category.FYI)
    act_beside_a_sync(mailbox, monkeypatch, perform)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.FYI.label]}

    judge(mailbox, message, Category.WAITING)
    act(mailbox)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.WAITING.label]}


def test_a_label_whose_removal_no_sync_has_stored_yet_is_put_back(
    mailbox: Mailbox, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mailbox, message, Category.FYI)
    act(mailbox)
    judge(mailbox, message, Category.WAITING)
    act_beside_a_sync(mailbox, monkeypatch)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.WAITING.label]}

    judge(mailbox, message, Category.FYI)
    act(mailbox)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.FYI.label]}


def test_what_a_later_sync_has_stored_costs_nothing(
    mailbox: Mailbox, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mailbox, message, Category.FYI)
    act_beside_a_sync(mailbox, monkeypatch)
    sync_mailbox(mailbox.account, mailbox.gmail)
    for category in (Category.WAITING, Category.FYI, Category.WAITING):
        judge(mailbox, message, category)
        act(mailbox)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.WAITING.label]}
    # The first verdict adds a label; each later verdict adds one and removes one.
    assert len(stored(Action)) == 7


def test_a_label_that_is_put_on_while_the_thread_is_judged_is_replaced(
    mailbox: Mailbox, message: Message
) -> None:
    judge(mailbox, message, Category.FYI)
    account, job_id = mailbox.account, uuid4()
    with firm_scope(mailbox.firm):
        case = open_case(account, message.thread_id, message.pk, job_id=job_id, force=True)
    verdict, source = judge_case(case, FixedClassifier(Category.WAITING))
    # A page of labels takes no thread's lock, so it can run while the thread is judged.
    put_page_on(mailbox)
    with firm_scope(mailbox.firm):
        decide(account, case, verdict, source=source, job_id=job_id)
    act(mailbox)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.WAITING.label]}


def undo_beside_a_sync(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, action: Action) -> None:
    """Undo the action, and let a sync read other changes just before the write to Gmail."""
    undo = ask_undo(mailbox, action)

    def perform(_: Mailbox) -> None:
        job_id = current(undo).job_id
        assert job_id is not None
        perform_undo(mailbox.account, mailbox.gmail, action.pk, job_id=job_id)

    act_beside_a_sync(mailbox, monkeypatch, perform)


def changes_of(mailbox: Mailbox, category: Category) -> list[Action]:
    label = {"label": LABEL_NAMES[category.label]}
    return [action for action in stored(Action) if action.parameters == label]


@pytest.mark.req("M-16")
def test_a_label_whose_undo_no_sync_has_stored_yet_is_put_back(
    mailbox: Mailbox, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mailbox, message, Category.FYI)
    act(mailbox)
    (applied,) = changes_of(mailbox, Category.FYI)
    undo_beside_a_sync(mailbox, monkeypatch, applied)
    assert state_labels(mailbox, message) == set()

    judge(mailbox, message, Category.FYI)
    act(mailbox)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.FYI.label]}


@pytest.mark.req("M-16")
def test_a_label_that_an_undo_put_back_and_no_sync_has_stored_yet_is_replaced(
    mailbox: Mailbox, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mailbox, message, Category.FYI)
    act(mailbox)
    judge(mailbox, message, Category.WAITING)
    act(mailbox)
    _, removed = changes_of(mailbox, Category.FYI)
    undo_beside_a_sync(mailbox, monkeypatch, removed)
    names = {LABEL_NAMES[Category.FYI.label], LABEL_NAMES[Category.WAITING.label]}
    assert state_labels(mailbox, message) == names

    judge(mailbox, message, Category.WAITING)
    act(mailbox)
    assert state_labels(mailbox, message) == {LABEL_NAMES[Category.WAITING.label]}
