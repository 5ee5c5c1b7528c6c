"""A rule does not act on a message again, unless its conditions or actions are changed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import connection
from django.db.models import F

from mail.models import Approval, Rule, SafeMode, Scope
from mail.services.approvals.approvals import approve, reject
from mail.services.deciding import classify
from mail.services.deciding.corrections import reclassify
from mail.services.rules.backlog import apply_page
from mail.services.rules.operations import (
    apply_to_old_mail,
    change_rule,
    create_rule,
    enable_rule,
    switch_off_rule,
    try_rule,
)
from mail.services.rules.rules import disable_rule
from tenants.scope import firm_scope
from tests.mail.approval_kit import person
from tests.mail.draft_kit import prepared, synced
from tests.mail.mail_kit import (
    FixedClassifier,
    Mailbox,
    drain,
    letter,
    only,
    stored,
    without_drafts,
)
from tests.mail.send_kit import at_once, sent
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-10", "M-13")]

INVOICES = {"type": "subject_contains", "value": "invoice"}
FORWARD = {"action": "forward", "parameters": {"to": ["acc@partner.example"]}}


@pytest.fixture
def ready(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox that sends at once, and drafts nothing."""
    prepared(at_once(mailbox))
    without_drafts(mailbox)
    return mailbox


def forwarding(mailbox: Mailbox, safe_mode: SafeMode = SafeMode.DANGEROUS_OVERRIDE) -> Rule:
    """Make a rule that forwards invoices, tried and enabled."""
    rule = create_rule(
        mailbox.firm.pk,
        name="To the accountant",
        conditions=INVOICES,
        actions=[FORWARD],
        safe_mode=safe_mode,
    )
    return enabled(rule)


def enabled(rule: Rule) -> Rule:
    try_rule(rule, user_id=None)
    return enable_rule(rule)


def arrive(mailbox: Mailbox) -> str:
    """Let an invoice arrive, sync, and run what follows; return Gmail's id."""
    arrived = mailbox.receive(letter("Invoice 7", "Please pay."))
    synced(mailbox)
    return arrived


def apply(rule: Rule) -> None:
    apply_to_old_mail(rule, days=30)
    drain()


def rename(rule: Rule) -> None:
    change_rule(rule, name="To our accountant")


def reprioritize(rule: Rule) -> None:
    change_rule(rule, priority=7)


def switch_off_and_on(rule: Rule) -> None:
    switch_off_rule(rule)
    enable_rule(rule)


def enable_after_mailroom_disabled_it(rule: Rule) -> None:
    with firm_scope(rule.firm_id):
        disable_rule(rule, "Its label was deleted")
    enable_rule(rule)


def try_again_and_rename(rule: Rule) -> None:
    try_rule(rule, user_id=None)
    rename(rule)


HARMLESS = [
    rename,
    reprioritize,
    switch_off_and_on,
    enable_after_mailroom_disabled_it,
    try_again_and_rename,
]


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_has_nothing_sent_again(
    ready: Mailbox, change: Callable[[Rule], None]
) -> None:
    rule = forwarding(ready)
    arrived = arrive(ready)
    assert len(sent(ready)) == 1

    change(rule)
    apply(rule)
    assert len(sent(ready)) == 1

    reclassify(ready.message(arrived))
    drain()
    assert len(sent(ready)) == 1


@pytest.mark.parametrize("answer", [approve, reject])
def test_a_harmless_change_has_nobody_asked_again(ready: Mailbox, answer: Any) -> None:
    rule = forwarding(ready, SafeMode.DEFAULT)
    arrive(ready)
    answer(only(stored(Approval)), by=person(ready))
    drain()
    before = len(sent(ready))

    rename(rule)
    switch_off_and_on(rule)
    apply(rule)

    assert len(stored(Approval)) == 1
    assert len(sent(ready)) == before == (answer is approve)


def test_a_question_that_waits_is_not_asked_again_for_a_new_name(ready: Mailbox) -> None:
    rule = forwarding(ready, SafeMode.DEFAULT)
    arrive(ready)

    rename(rule)
    apply(rule)
    approve(only(stored(Approval)), by=person(ready))
    drain()

    assert len(sent(ready)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"conditions": {"type": "subject_contains", "value": "voice"}},
        {"actions": [{"action": "forward", "parameters": {"to": ["books@partner.example"]}}]},
        {"scope": Scope.DOMAIN, "scope_ref": "customer.example"},
    ],
    ids=["conditions", "actions", "scope"],
)
def test_a_rule_that_matches_or_does_something_else_acts_again_once(
    ready: Mailbox, changed: dict[str, Any]
) -> None:
    rule = forwarding(ready)
    arrive(ready)

    enabled(change_rule(rule, **changed))
    apply(rule)
    assert len(sent(ready)) == 2

    rename(rule)
    apply(rule)
    assert len(sent(ready)) == 2


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "behind"])
def test_the_clock_of_the_host_on_which_a_rule_is_changed_does_not_count(
    ready: Mailbox, hours: int
) -> None:
    host = datetime.now(UTC) + timedelta(hours=hours)
    with time_machine.travel(host):
        rule = forwarding(ready)
    arrive(ready)
    apply(rule)
    assert len(sent(ready)) == 1

    with time_machine.travel(host):
        enabled(change_rule(rule, conditions={"type": "subject_contains", "value": "voice"}))
        rename(rule)
    apply(rule)
    apply(rule)
    assert len(sent(ready)) == 2


def test_a_row_that_holds_the_time_of_a_later_try_has_nothing_sent_again(ready: Mailbox) -> None:
    rule = forwarding(ready)
    arrive(ready)
    with firm_scope(ready.firm):
        Rule.objects.update(tried_at=F("changed_at") + timedelta(hours=1))

    apply(rule)

    assert len(sent(ready)) == 1


@postgresql_only
def test_mail_that_is_judged_while_a_rule_is_applied_to_it_is_forwarded_once(
    ready: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = forwarding(ready)
    ready.receive(letter("Invoice 7", "Please pay."))
    (message,) = ready.store_all()
    act_by_rules = classify.act_by_rules

    def page() -> dict[str, Any]:
        with closing(connection):
            return apply_page(ready.account, rule.pk, days=30, before=None)

    with ThreadPoolExecutor(1) as pool:
        pages: list[Future[Any]] = []

        def act(*arguments: Any) -> None:
            act_by_rules(*arguments)
            pages.append(pool.submit(page))
            wait_until(lambda: pages[0].done() or is_waited_for(), "the page to come to the mail")

        monkeypatch.setattr(classify, "act_by_rules", act)
        classify.classify_thread(
            ready.account, message.thread_id, message.pk, FixedClassifier(), job_id=uuid4()
        )
        pages[0].result()
    drain()

    assert len(sent(ready)) == 1
