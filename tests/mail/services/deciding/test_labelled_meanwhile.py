"""Labels that the person gives to a message just before Mailroom gives its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Decision, Draft
from mail.services.deciding import classify
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    QUESTION,
    give_label,
    listed,
    prepared,
    rule,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import Mailbox, drain, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-09", "M-24")]


def while_judged(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]) -> None:
    """Let something happen once, while the next thread is judged."""
    judge = classify.judge

    def slow(*args: Any) -> Any:
        monkeypatch.setattr(classify, "judge", judge)
        step()
        return judge(*args)

    monkeypatch.setattr(classify, "judge", slow)


def check_it_is_the_persons_word(mailbox: Mailbox, arrived: str) -> None:
    assert [one.source for one in stored(Decision)] == ["offline", "person"]
    assert the_thread().classification == LabelKey.FYI
    assert state_labels(mailbox, arrived) == {LabelKey.FYI}
    assert {one.status for one in stored(Draft)} <= {"withdrawn"}
    assert listed(mailbox) == []


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_label_given_while_it_was_judged_is_the_persons_word(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    arrived = prepared(mailbox).receive(letter("Price list", QUESTION))

    def label() -> None:
        give_label(mailbox, arrived, LabelKey.FYI)
        if is_seen:
            sync_mailbox(mailbox.account, mailbox.gmail)

    while_judged(monkeypatch, label)
    synced(mailbox)
    synced(mailbox)
    check_it_is_the_persons_word(mailbox, arrived)


def test_so_is_one_given_before_it_was_read(mailbox: Mailbox) -> None:
    arrived = prepared(mailbox).receive(letter("Price list", QUESTION))
    sync_mailbox(mailbox.account, mailbox.gmail)
    give_label(mailbox, arrived, LabelKey.FYI)
    drain()
    synced(mailbox)
    check_it_is_the_persons_word(mailbox, arrived)


def test_a_label_that_the_person_took_off_again_is_none(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = prepared(mailbox).receive(letter("Price list", QUESTION))

    def label() -> None:
        give_label(mailbox, arrived, LabelKey.FYI)
        ids = {one["name"]: one["id"] for one in mailbox.gmail.list_labels()}
        mailbox.gmail.modify_message(arrived, remove=[ids["🤖 AI/FYI"]])

    while_judged(monkeypatch, label)
    synced(mailbox)
    synced(mailbox)
    assert [one.source for one in stored(Decision)] == ["offline"]
    assert state_labels(mailbox, arrived) == {LabelKey.OUTBOX}


@pytest.mark.req("M-19")
@pytest.mark.parametrize("category", [Category.FYI, Category.NEEDS_RESPONSE])
def test_one_draft_is_written_that_was_asked_for_before_the_mail_was_read(
    mailbox: Mailbox, category: Category
) -> None:
    arrived = prepared(mailbox).receive(letter("Price list", QUESTION))
    with firm_scope(mailbox.firm):
        rule(mailbox, category=category)
    sync_mailbox(mailbox.account, mailbox.gmail)
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    drain()
    synced(mailbox)
    is_wanted = category == Category.NEEDS_RESPONSE
    origin = "automatic" if is_wanted else "manual"
    assert versions() == [(origin, "ready", 0)]
    assert len(listed(mailbox)) == 1
