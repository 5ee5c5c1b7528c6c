"""Rules are checked on each new message of a thread, also if several came before the verdict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from mail.labels import LabelKey
from mail.llm.client import ModelUnavailable
from mail.models import Action, ActionType, Decision, MailAccount, MailThread, Message, Rule
from mail.services.deciding import classify, classify_page
from mail.services.deciding.classify import Case, open_case
from mail.services.mailboxes.modes import suggest_only
from mail.services.rules import unseen
from mail.services.rules.routing_operations import create_routing_rule
from mail.services.syncing.ingest import ingest_message
from tenants.scope import firm_scope
from tests.mail.draft_kit import give_label, prepared, rule, synced
from tests.mail.mail_kit import (
    OWNER,
    Mailbox,
    drain,
    drain_later,
    jobs,
    letter,
    stored,
    without_drafts,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-10")]

INVOICE = "<invoice@supplier.example>"


@pytest.fixture
def ready(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox with a rule that stars what the supplier writes."""
    prepared(mailbox)
    without_drafts(mailbox)
    with firm_scope(mailbox.firm):
        rule(mailbox, category="")
        Rule.objects.update(
            actions=[{"action": "star", "parameters": {}}],
            conditions={"type": "sender_domain", "value": "supplier.example"},
        )
    return mailbox


def arrives(
    box: Mailbox, number: int, sender: str, labels: tuple[str, ...] = ("INBOX", "UNREAD")
) -> str:
    """Let a message come into the invoice's thread; number 0 is the invoice. Return Gmail's id."""
    ids = {"message_id": INVOICE} if number == 0 else {"reply_to_id": INVOICE}
    at = datetime.now(UTC) - timedelta(minutes=50 - number)
    return box.receive(letter("Invoice", sender=sender, at=at, **ids), labels=labels, at=at)


def starred(box: Mailbox) -> list[str]:
    """Return Gmail's ids of the messages that the rule wanted to star."""
    asked = [one.message_id for one in stored(Action) if one.action_type == ActionType.STAR]
    return [one.gmail_message_id for one in box.messages() if one.pk in asked]


@pytest.mark.parametrize("smallest_page", [1, 100])
def test_a_rule_acts_on_a_message_that_was_answered_before_it_was_judged(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch, smallest_page: int
) -> None:
    monkeypatch.setattr("mail.services.deciding.requests.SMALLEST_PAGE", smallest_page)
    invoice = arrives(ready, 0, "Bills <bills@supplier.example>")
    arrives(ready, 1, "Ben <ben@acme.example>")
    synced(ready)
    assert starred(ready) == [invoice]
    assert "STARRED" in ready.labels(invoice)


def test_it_acts_on_each_that_came_since_the_last_verdict_once(ready: Mailbox) -> None:
    wanted = [arrives(ready, 0, "Bills <bills@supplier.example>")]
    synced(ready)
    wanted += [arrives(ready, number, "Bills <bills@supplier.example>") for number in (1, 2)]
    arrives(ready, 3, "Ben <ben@acme.example>")
    synced(ready)
    arrives(ready, 4, "Ben <ben@acme.example>")
    synced(ready)
    assert sorted(starred(ready)) == sorted(wanted)
    assert len([one for one in stored(Action) if one.action_type == ActionType.STAR]) == 3


def judged_without_the_invoice(box: Mailbox, labels: tuple[str, ...] = ("INBOX",)) -> str:
    """Let the thread be judged before its older message is stored, as after a failed job."""
    invoice = arrives(box, 0, "Bills <bills@supplier.example>", labels)
    answer = arrives(box, 1, "Ben <ben@acme.example>")
    ingest_message(box.account, box.gmail, answer)
    drain()
    assert len(stored(Decision)) == 1
    return invoice


@pytest.mark.parametrize("smallest_page", [1, 100])
def test_it_acts_on_mail_that_is_stored_once_its_thread_is_judged_up_to_newer(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch, smallest_page: int
) -> None:
    monkeypatch.setattr("mail.services.queueing.SMALLEST_PAGE", smallest_page)
    invoice = judged_without_the_invoice(ready)
    synced(ready)
    assert starred(ready) == [invoice]
    assert "STARRED" in ready.labels(invoice)
    assert len(stored(Decision)) == 1


def while_judged(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]) -> None:
    """Let something happen once while a thread is judged, before the verdict."""

    def late(*arguments: Any) -> Any:
        for module in (classify, classify_page):
            monkeypatch.setattr(module, "judge", judge)
        step()
        return judge(*arguments)

    judge = classify.judge
    for module in (classify, classify_page):
        monkeypatch.setattr(module, "judge", late)


@pytest.mark.parametrize("smallest_page", [1, 100])
def test_it_acts_on_mail_that_is_stored_while_its_thread_is_judged(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch, smallest_page: int
) -> None:
    monkeypatch.setattr("mail.services.deciding.requests.SMALLEST_PAGE", smallest_page)
    invoice = arrives(ready, 0, "Bills <bills@supplier.example>")
    answer = arrives(ready, 1, "Ben <ben@acme.example>")
    while_judged(monkeypatch, lambda: ingest_message(ready.account, ready.gmail, invoice))
    ingest_message(ready.account, ready.gmail, answer)
    drain()
    drain_later()
    assert starred(ready) == [invoice]
    assert len(stored(Decision)) == 1


def test_a_verdict_stands_where_no_rule_holds_for_what_is_stored_meanwhile(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = arrives(ready, 0, "Ann <ann@acme.example>")
    answer = arrives(ready, 1, "Ben <ben@acme.example>")
    while_judged(monkeypatch, lambda: ingest_message(ready.account, ready.gmail, question))
    ingest_message(ready.account, ready.gmail, answer)
    drain()
    first, _ = jobs("classify", live=False)
    assert [decision.job_id for decision in stored(Decision)] == [first.pk]


def test_it_acts_on_mail_that_the_person_labels_before_it_is_judged(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ModelUnavailable("The model is down")

    while_judged(monkeypatch, fail)
    invoice = arrives(ready, 0, "Bills <bills@supplier.example>")
    synced(ready)
    give_label(ready, invoice, LabelKey.FYI)
    synced(ready)
    drain_later()
    assert [decision.source for decision in stored(Decision)] == ["person"]
    assert starred(ready) == [invoice]


def test_it_leaves_archived_mail_alone_that_is_stored_after_the_verdict(ready: Mailbox) -> None:
    invoice = judged_without_the_invoice(ready, labels=("UNREAD",))
    ingest_message(ready.account, ready.gmail, invoice)
    drain()
    assert len(ready.messages()) == 2
    assert starred(ready) == []


def test_it_leaves_mail_stored_after_the_verdict_alone_where_mailroom_suggests_only(
    ready: Mailbox,
) -> None:
    invoice = judged_without_the_invoice(ready)
    suggest_only(ready.account)
    ingest_message(ready.account, ready.gmail, invoice)
    drain()
    assert starred(ready) == []


def test_it_leaves_mail_stored_after_the_verdict_to_the_agent_it_is_handed_to(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def to_agent(_: MailAccount, message: Message, *__: object) -> bool:
        return message.sender_address.endswith("@supplier.example")

    monkeypatch.setattr("mail.services.rules.routing._to_agent", to_agent)
    with firm_scope(ready.firm):
        create_routing_rule(
            ready.firm.pk,
            name="Bills",
            match={"subject_contains": "invoice"},
            route="agent",
            profile="shop",
        )
    invoice = judged_without_the_invoice(ready)
    ingest_message(ready.account, ready.gmail, invoice)
    drain()
    assert starred(ready) == []


def test_what_is_not_in_the_inbox_or_the_owners_own_is_left_alone(ready: Mailbox) -> None:
    arrives(ready, 0, "Bills <bills@supplier.example>", labels=("INBOX", "TRASH"))
    arrives(ready, 1, OWNER, labels=("SENT",))
    arrives(ready, 2, "Ben <ben@acme.example>")
    synced(ready)
    assert starred(ready) == []


def test_what_was_archived_before_its_thread_was_judged_is_left_alone(ready: Mailbox) -> None:
    invoice = arrives(ready, 0, "Bills <bills@supplier.example>")
    arrives(ready, 1, "Ben <ben@acme.example>")
    *_, newest = ready.store_all()
    account = ready.account
    for labels, held in ((["INBOX"], [invoice]), (["UNREAD"], [])):
        with firm_scope(ready.firm):
            Message.objects.filter(gmail_message_id=invoice).update(labels=labels)
            case = open_case(account, newest.thread_id, newest.pk, job_id=uuid4(), force=False)
        assert isinstance(case, Case)
        assert [message.gmail_message_id for message, _ in case.unseen] == held


def test_a_mailbox_that_suggests_only_is_left_alone(ready: Mailbox) -> None:
    suggest_only(ready.account)
    arrives(ready, 0, "Bills <bills@supplier.example>")
    arrives(ready, 1, "Ben <ben@acme.example>")
    synced(ready)
    drain()
    assert starred(ready) == []


def test_what_the_person_says_of_the_thread_has_rules_act_on_nothing_more(ready: Mailbox) -> None:
    invoice = arrives(ready, 0, "Bills <bills@supplier.example>")
    arrives(ready, 1, "Ben <ben@acme.example>")
    synced(ready)
    give_label(ready, invoice, LabelKey.WAITING)
    synced(ready)
    assert starred(ready) == [invoice]


@pytest.mark.parametrize("is_sure", [True, False])
def test_old_mail_is_left_alone_where_what_the_last_verdict_saw_is_deleted(
    ready: Mailbox, is_sure: bool
) -> None:
    with firm_scope(ready.firm):
        Rule.objects.update(enabled=False)
    arrives(ready, 0, "Bills <bills@supplier.example>")
    synced(ready)
    last = arrives(ready, 1, "Ben <ben@acme.example>")
    synced(ready)
    with firm_scope(ready.firm):
        Rule.objects.update(enabled=True)
        if not is_sure:
            MailThread.objects.update(classification="")
    messages = ready.gmail._resources.messages
    ready.gmail._execute(messages.delete(userId="me", id=last))
    synced(ready)
    with firm_scope(ready.firm):
        assert MailThread.objects.get().classified_upto_id is None

    arrives(ready, 2, "Ben <ben@acme.example>")
    synced(ready)
    assert starred(ready) == []


@pytest.mark.parametrize(
    ("actions", "locks"),
    [
        ([{"action": "star"}, {"action": "auto_reply", "parameters": {"body": "Thanks."}}], True),
        ([{"action": "apply_label", "parameters": {"label": "auto_reply"}}], False),
        (["auto_reply"], False),
        ({"auto_reply": {}}, False),
        ("auto_reply", False),
        (7, False),
    ],
)
def test_the_mailbox_is_locked_for_rules_that_answer_alone(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch, actions: Any, locks: bool
) -> None:
    locked: list[MailAccount] = []
    monkeypatch.setattr(unseen, "locked_row", locked.append)
    unseen.lock_for_answers(ready.account, [(Message(), [Rule(actions=actions)])])
    assert locked == ([ready.account] if locks else [])
