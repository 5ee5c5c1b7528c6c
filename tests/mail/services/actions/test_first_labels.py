"""The label of a first verdict: the stored labels are used, and Gmail is not asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.testing import drain
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailUnavailable
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.labels import LABEL_NAMES, LabelKey
from mail.llm.base import Category
from mail.models import Action, ActionStatus, ActionType, Decision, DecisionSource
from mail.services.actions.actions import request_action
from mail.services.actions.perform import perform_action
from mail.services.actions.undo import request_undo
from mail.services.deciding import label_page
from mail.services.mailboxes.modes import suggest_only
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.draft_kit import prepared, synced
from tests.mail.mail_kit import Mailbox, letter, only, stored, without_drafts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-15")]

FYI = LABEL_NAMES[LabelKey.FYI]


@pytest.fixture
def readings() -> Iterator[list[str]]:
    """Yield a list to which the format of each read of a message or thread is added."""
    formats: list[str] = []
    get_message, get_thread = GmailClient.get_message, GmailClient.get_thread

    def message(self: GmailClient, gmail_message_id: str, fmt: str = "full") -> Any:
        formats.append(fmt)
        return get_message(self, gmail_message_id, fmt)

    def thread(self: GmailClient, gmail_thread_id: str, fmt: str = "full") -> Any:
        formats.append(f"thread {fmt}")
        return get_thread(self, gmail_thread_id, fmt)

    with (
        patch.object(GmailClient, "get_message", message),
        patch.object(GmailClient, "get_thread", thread),
    ):
        yield formats


def decided(mailbox: Mailbox) -> tuple[str, Action]:
    """Let a message arrive and be judged; return Gmail's id and the action that labels it."""
    without_drafts(prepared(mailbox))
    arrived = mailbox.receive(letter("The office moves"))
    mailbox.store_all()
    with firm_scope(mailbox.firm):
        message = mailbox.message(arrived)
        decision = Decision.objects.create(
            account=mailbox.account,
            message=message,
            source=DecisionSource.OFFLINE,
            category=Category.FYI,
            confidence=0.9,
        )
        action = request_action(message, ActionType.APPLY_LABEL, {"label": FYI}, decision=decision)
    return arrived, action


def perform(mailbox: Mailbox, action: Action, job_id: Any = None) -> dict[str, Any]:
    return perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=job_id or uuid4())


def current(action: Action) -> Action:
    found: Action = only(stored(Action), pk=action.pk)
    return found


def test_a_mail_is_read_once_from_its_arrival_to_its_label(
    mailbox: Mailbox, readings: list[str]
) -> None:
    without_drafts(prepared(mailbox))
    arrived = mailbox.receive(letter("For your information", "The office moves in May."))
    synced(mailbox)
    assert readings == ["full"]
    (action,) = stored(Action)
    label = action.parameters["label"]
    assert label in mailbox.labels(arrived)
    assert action.pre_image == {"labels": ["INBOX", "UNREAD"]}
    assert len((action.undo_hint or {})["changed"]["added"]) == 1


def test_what_the_person_changed_meanwhile_is_neither_lost_nor_put_down_to_the_action(
    mailbox: Mailbox, readings: list[str]
) -> None:
    arrived, action = decided(mailbox)
    mailbox.gmail.modify_message(arrived, add=["STARRED"], remove=["UNREAD"])
    readings.clear()
    perform(mailbox, action)
    assert readings == []
    assert mailbox.labels(arrived) == {"INBOX", "STARRED", FYI}
    hint = current(action).undo_hint or {}
    assert (len(hint["changed"]["added"]), hint["changed"]["removed"]) == (1, [])
    sync_mailbox(mailbox.account, mailbox.gmail)
    with firm_scope(mailbox.firm):
        request_undo(current(action))
    drain()
    left = mailbox.labels(arrived)
    assert FYI not in left
    assert {"INBOX", "STARRED"} <= left
    assert "UNREAD" not in left


def test_a_label_that_is_stored_already_is_looked_at_in_gmail(
    mailbox: Mailbox, readings: list[str]
) -> None:
    arrived, action = decided(mailbox)
    labels = {one["name"]: one["id"] for one in mailbox.gmail.list_labels()}
    mailbox.gmail.modify_message(arrived, add=[labels[FYI]])
    sync_mailbox(mailbox.account, mailbox.gmail)
    readings.clear()
    assert perform(mailbox, action)["changed"] is False
    assert readings == ["minimal"]
    assert FYI in mailbox.labels(arrived)


def test_a_second_attempt_asks_what_the_first_has_done(
    mailbox: Mailbox, readings: list[str]
) -> None:
    arrived, action = decided(mailbox)
    job_id = uuid4()
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    with pytest.raises(GmailUnavailable):
        perform(mailbox, action, job_id)
    assert FYI in mailbox.labels(arrived)
    readings.clear()
    perform(mailbox, action, job_id)
    assert readings == ["minimal"]
    done = current(action)
    assert done.status == ActionStatus.COMPLETED
    assert (done.undo_hint or {})["changed"]["added"], "the first attempt added the label"


def test_a_message_that_is_gone_cancels_its_label(mailbox: Mailbox) -> None:
    arrived, action = decided(mailbox)
    mailbox.gmail.delete_message(arrived)
    assert perform(mailbox, action)["skipped"] is True
    assert current(action).status == ActionStatus.CANCELED


@pytest.mark.req("M-04")
def test_own_labels_in_the_history_are_told_apart_with_as_many_queries_for_many(
    mailbox: Mailbox,
) -> None:
    def echo(mails: int) -> int:
        for number in range(mails):
            mailbox.receive(letter(f"Number {number} of {mails}"))
        synced(mailbox)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            sync_mailbox(mailbox.account, mailbox.gmail)
        return len(queries)

    without_drafts(prepared(mailbox))
    few = echo(2)
    assert echo(12) == few
    assert len(stored(Action)) == 14


@pytest.mark.req("M-24")
def test_a_page_labelled_while_the_mailbox_began_to_suggest_only_says_so(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drafts(prepared(mailbox))
    mailbox.receive_many(6)
    apply = label_page._apply

    def switched_meanwhile(*args: Any) -> Any:
        suggest_only(mailbox.account)
        monkeypatch.setattr(label_page, "_apply", apply)
        return apply(*args)

    monkeypatch.setattr(label_page, "_apply", switched_meanwhile)
    synced(mailbox)
    for action in stored(Action, select_related=("message",)):
        carried = action.parameters["label"] in mailbox.labels(action.message.gmail_message_id)
        assert carried == (action.status == ActionStatus.COMPLETED)
    assert ActionStatus.COMPLETED in {action.status for action in stored(Action)}


@pytest.mark.req("M-15")
@pytest.mark.parametrize("status", [400, 409])
def test_a_label_that_gmail_refuses_to_make_keeps_no_other_label_back(
    mailbox: Mailbox, status: int
) -> None:
    arrived = [mailbox.receive(letter(f"Message {number}")) for number in range(2)]
    mailbox.store_all()
    with firm_scope(mailbox.firm):
        good, bad = (
            request_action(mailbox.message(one), ActionType.APPLY_LABEL, {"label": label})
            for one, label in zip(arrived, ("Work", "Boats"), strict=True)
        )
        # As `classify_page` stores the actions: one job executes all of them.
        Action.objects.update(job_id=None)
    # The label "Boats" is created first, so the fault meets its request.
    mailbox.simulator.order_fault(
        Fault(status=status, reason="invalidArgument"), method="labels.create"
    )
    label_page.label_page(mailbox.account, mailbox.gmail, [good.pk, bad.pk], job_id=uuid4())
    statuses = {one.pk: one.status for one in stored(Action)}
    assert statuses == {good.pk: "completed", bad.pk: "queued"}
