"""The person's corrections, by a label in Gmail or over REST, and the rules proposed after them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from uuid_utils.compat import uuid7

from mail.errors import WrongState
from mail.job_handlers import classify as classify_job
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Decision, Draft, EventType, MailEvent, Rule
from mail.services.deciding.corrections import decide_for_person, reclassify
from mail.services.deciding.requests import enqueue_classify
from mail.services.rules.operations import change_rule, enable_rule, try_rule
from tenants.models import Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.api.conftest import key_for
from tests.mail.draft_kit import (
    asked,
    give_label,
    in_gmail,
    prepared,
    rule,
    state_labels,
    synced,
    the_thread,
)
from tests.mail.mail_kit import Mailbox, done_before_a_kill, drain_later, jobs, letter, stored

pytestmark = pytest.mark.django_db(transaction=True)

SENDER = "anna@customer.example"
NEWS = "For your information: we are moving."
CORRECTIONS = (Category.ACTION_REQUIRED, Category.PAYMENT_REQUEST, Category.WAITING, Category.FYI)


def arrived_as(mailbox: Mailbox, category: Category) -> str:
    """Let a mail arrive to which somebody's rule gives the category."""
    prepared(mailbox)
    with firm_scope(mailbox.firm):
        rule(mailbox, category=category)
    return asked(mailbox, NEWS)


def sources() -> list[tuple[str, str]]:
    return [(one.source, one.category) for one in stored(Decision)]


def proposals() -> list[Rule]:
    return [one for one in stored(Rule) if one.corrections]


def reclassified(mailbox: Mailbox, message: str, role: Role = Role.OPERATOR, **body: Any) -> Any:
    pk = mailbox.message(message).pk
    return Client().post(
        f"/api/v1/mail/messages/{pk}/reclassify/",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {key_for(mailbox.firm, role, uuid4().hex)}"},
    )


@pytest.mark.req("M-24")
@pytest.mark.parametrize("category", CORRECTIONS)
def test_another_label_in_gmail_is_a_decision_and_a_proposed_rule(
    mailbox: Mailbox, category: Category
) -> None:
    was = Category.FYI if category is not Category.FYI else Category.WAITING
    message = arrived_as(mailbox, was)
    assert state_labels(mailbox, message) == {was.label}
    give_label(mailbox, message, category.label)
    synced(mailbox)
    assert sources() == [("rule", was), ("person", category)]
    assert the_thread().classification == category
    assert state_labels(mailbox, message) == {category.label}
    (proposed,) = proposals()
    assert (proposed.scope, proposed.scope_ref) == ("sender", SENDER)
    assert (proposed.category, proposed.enabled) == (category, False)
    assert EventType.RULE_PROPOSED in [one.event_type for one in stored(MailEvent)]
    synced(mailbox)
    assert len(sources()) == 2
    assert jobs() == []


def test_labels_of_our_own_are_no_corrections(mailbox: Mailbox) -> None:
    prepared(mailbox)
    asked(mailbox, NEWS)
    asked(mailbox, message_id="<q2@customer.example>")
    synced(mailbox)
    assert {source for source, _ in sources()} == {"offline"}
    assert stored(Rule) == []


def test_a_needless_draft_goes_when_the_person_says_fyi(mailbox: Mailbox) -> None:
    prepared(mailbox)
    message = asked(mailbox)
    assert len(in_gmail(mailbox)) == 1
    give_label(mailbox, message, LabelKey.FYI)
    synced(mailbox)
    assert in_gmail(mailbox) == []
    assert [one.status for one in stored(Draft)] == ["withdrawn"]
    assert state_labels(mailbox, message) == {LabelKey.FYI}


def test_the_label_that_orders_a_draft_is_a_correction_too(mailbox: Mailbox) -> None:
    message = arrived_as(mailbox, Category.FYI)
    give_label(mailbox, message, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    assert [one.category for one in proposals()] == [Category.NEEDS_RESPONSE]


@pytest.mark.req("M-24")
def test_a_proposal_follows_the_newest_correction(mailbox: Mailbox) -> None:
    message = arrived_as(mailbox, Category.FYI)
    for category in (Category.ACTION_REQUIRED, Category.WAITING):
        give_label(mailbox, message, category.label)
        synced(mailbox)
    (proposed,) = proposals()
    assert (proposed.category, proposed.corrections) == (Category.WAITING, 2)


@pytest.mark.req("M-24")
def test_an_enabled_proposal_decides_and_is_somebodys(mailbox: Mailbox) -> None:
    prepared(mailbox)
    message = asked(mailbox, NEWS)
    give_label(mailbox, message, LabelKey.ACTION_REQUIRED)
    synced(mailbox)
    (proposed,) = proposals()
    with pytest.raises(WrongState, match="Try the rule first"):
        enable_rule(proposed)
    trial = try_rule(proposed, user_id=None)
    assert [one.gmail_message_id for one in trial.matched] == [message]
    enable_rule(proposed)
    assert proposals() == []
    asked(mailbox, NEWS, message_id="<other@customer.example>")
    assert sources()[-1] == ("rule", Category.ACTION_REQUIRED)
    # A correction that contradicts the rule leaves the rule as it is, and proposes no second rule.
    give_label(mailbox, message, LabelKey.FYI)
    synced(mailbox)
    assert sources()[-1] == ("person", Category.FYI)
    assert [(one.category, one.enabled) for one in stored(Rule)] == [("action_required", True)]


def test_a_changed_proposal_is_somebodys(mailbox: Mailbox) -> None:
    message = arrived_as(mailbox, Category.FYI)
    give_label(mailbox, message, LabelKey.WAITING)
    synced(mailbox)
    change_rule(proposals()[0], priority=5)
    assert proposals() == []


def test_mail_without_a_sender_to_name_proposes_nothing(mailbox: Mailbox) -> None:
    prepared(mailbox)
    message = mailbox.receive(letter("Notice", NEWS, sender="MAILER-DAEMON <>"))
    synced(mailbox)
    assert reclassified(mailbox, message, category="action_required").status_code == 202
    synced(mailbox)
    assert sources()[-1] == ("person", "action_required")
    assert stored(Rule) == []


@pytest.mark.req("M-21", "M-22")
def test_over_rest_a_thread_is_reclassified_or_judged_once_more(mailbox: Mailbox) -> None:
    message = arrived_as(mailbox, Category.FYI)
    answer = reclassified(mailbox, message, category="action_required", reason="A deadline")
    assert (answer.status_code, answer.json()["created"]) == (202, True)
    synced(mailbox)
    assert state_labels(mailbox, message) == {LabelKey.ACTION_REQUIRED}
    assert reclassified(mailbox, message).status_code == 202
    synced(mailbox)
    expected = [("rule", "fyi"), ("person", "action_required"), ("rule", "fyi")]
    assert sources() == expected
    assert state_labels(mailbox, message) == {LabelKey.FYI}


@pytest.mark.req("M-21", "M-22")
@pytest.mark.parametrize(
    ("orders", "last"),
    [
        (["waiting", "action_required", "waiting"], ("person", "waiting")),
        (["waiting", "", "action_required"], ("person", "action_required")),
        (["waiting", ""], ("rule", "fyi")),
    ],
)
def test_of_several_orders_the_last_one_stands(
    mailbox: Mailbox, orders: list[str], last: tuple[str, str]
) -> None:
    message = arrived_as(mailbox, Category.FYI)
    for category in orders:
        body = {"category": category} if category else {}
        assert reclassified(mailbox, message, **body).status_code == 202
    synced(mailbox)
    assert sources()[-1] == last
    assert the_thread().classification == last[1]


@pytest.mark.req("M-21")
def test_an_order_given_while_another_is_carried_out_stands(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = arrived_as(mailbox, Category.FYI)
    decide = classify_job.decide_for_person
    later = ["waiting", "action_required"]

    def ordered_anew(*args: Any, **kwargs: Any) -> Any:
        result = decide(*args, **kwargs)
        if later:
            reclassified(mailbox, message, category=later.pop())
        return result

    monkeypatch.setattr(classify_job, "decide_for_person", ordered_anew)
    reclassified(mailbox, message, category="waiting")
    synced(mailbox)
    assert [category for _, category in sources()] == [
        "fyi",
        "waiting",
        "action_required",
        "waiting",
    ]


@pytest.mark.parametrize("then", [Category.WAITING, None], ids=["another", "once more"])
def test_an_order_after_a_kill_that_follows_a_decision_is_carried_out(
    mailbox: Mailbox, then: Category | None
) -> None:
    message = mailbox.message(arrived_as(mailbox, Category.FYI))
    reclassify(message, category=Category.ACTION_REQUIRED)
    done_before_a_kill("classify", refunded=True)
    reclassify(message, category=then or "")
    drain_later()
    assert sources()[1:] == [
        ("person", "action_required"),
        ("person", "waiting") if then else ("rule", "fyi"),
    ]


def test_an_order_tried_again_does_not_undo_a_later_one(mailbox: Mailbox) -> None:
    message = mailbox.message(arrived_as(mailbox, Category.FYI))
    first, second = uuid7(), uuid7()
    about = (mailbox.account, message.thread_id, message.pk)
    decide_for_person(*about, Category.WAITING, job_id=second)
    result = decide_for_person(*about, Category.ACTION_REQUIRED, job_id=first)
    assert result["skipped"]
    assert the_thread().classification == Category.WAITING


@pytest.mark.req("M-09")
def test_judging_once_more_is_no_waiting_job_that_judges_what_is_new(mailbox: Mailbox) -> None:
    message = arrived_as(mailbox, Category.FYI)
    with firm_scope(mailbox.firm):
        enqueue_classify(mailbox.message(message))
    assert reclassified(mailbox, message).status_code == 202
    synced(mailbox)
    assert sources() == [("rule", "fyi"), ("rule", "fyi")]


@pytest.mark.req("M-22")
def test_over_rest_who_may_not_read_or_names_no_category_is_refused(mailbox: Mailbox) -> None:
    message = arrived_as(mailbox, Category.FYI)
    wrong = reclassified(mailbox, message, category="spam")
    assert wrong.status_code == 400
    assert wrong.json()["errors"][0]["field"] == "category"
    assert reclassified(mailbox, message, Role.VIEWER, category="fyi").status_code == 403
    owner = UserFactory(member_of=mailbox.firm, member_of__role=Role.VIEWER)
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(owner=owner, shared=False)
    assert reclassified(mailbox, message, category="waiting").status_code == 403
    assert jobs("classify") == []
