"""Threads are judged once, again after new mail, and shown by exactly one label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from mail.errors import RowGone
from mail.labels import LABEL_NAMES, LabelKey
from mail.llm.base import Category, Classification, MailContext
from mail.llm.offline import OfflineClassifier
from mail.models import (
    Action,
    ActionStatus,
    ActionType,
    Decision,
    EventType,
    MailEvent,
    MailThread,
    ThreadStatus,
)
from mail.services.actions.perform import perform_action
from mail.services.deciding.classify import classify_thread
from mail.services.deciding.classify_page import classify_page
from mail.services.timelines.timeline import timeline_of
from tenants.scope import firm_scope
from tests.mail.mail_kit import OWNER, FixedClassifier, Mailbox, jobs, letter, only, stored

pytestmark = pytest.mark.django_db

AT = datetime(2026, 3, 5, 9, 30, tzinfo=UTC)


def first_letter(mailbox: Mailbox) -> str:
    raw = letter("Price", message_id="<1@x.example>", at=AT)
    arrived = mailbox.receive(raw)
    mailbox.store_all()
    return arrived


def next_letter(mailbox: Mailbox, *, days: int = 1, sender: str = "anna@customer.example") -> str:
    raw = letter(
        "Re: Price",
        f"Text of day {days}",
        sender=sender,
        reply_to_id="<1@x.example>",
        at=AT + timedelta(days),
    )
    labels = ("SENT",) if sender == OWNER else ("INBOX", "UNREAD")
    arrived = mailbox.receive(raw, labels=labels)
    mailbox.store_all()
    return arrived


def judge(
    mailbox: Mailbox,
    arrived: str,
    category: Category = Category.NEEDS_RESPONSE,
    *,
    classifier: FixedClassifier | None = None,
    force: bool = False,
    job_id: UUID | None = None,
) -> dict[str, object]:
    message = mailbox.message(arrived)
    return classify_thread(
        mailbox.account,
        message.thread_id,
        message.pk,
        classifier or FixedClassifier(category),
        job_id=job_id or uuid4(),
        force=force,
    )


def act(mailbox: Mailbox) -> None:
    """Execute what is queued, oldest first."""
    for action in stored(Action):
        if action.status == ActionStatus.QUEUED:
            perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=uuid4())


def category_labels(mailbox: Mailbox, *arrived: str) -> list[str]:
    """Return the category labels on these messages, one for each message that has it."""
    names = {LABEL_NAMES[category.label] for category in Category}
    return [name for one in arrived for name in sorted(mailbox.labels(one) & names)]


@pytest.mark.req("M-09")
@pytest.mark.parametrize(
    ("category", "status"),
    [
        (Category.NEEDS_RESPONSE, ThreadStatus.PENDING),
        (Category.ACTION_REQUIRED, ThreadStatus.SKIPPED),
        (Category.PAYMENT_REQUEST, ThreadStatus.SKIPPED),
        (Category.FYI, ThreadStatus.SKIPPED),
        (Category.WAITING, ThreadStatus.SKIPPED),
    ],
)
def test_a_verdict_is_kept_and_shown(
    mailbox: Mailbox, category: Category, status: ThreadStatus
) -> None:
    arrived = first_letter(mailbox)
    result = judge(mailbox, arrived, category)
    (decision,) = stored(Decision)
    assert result["decision_id"] == str(decision.pk)
    assert (decision.category, decision.confidence, decision.source) == (category, 0.8, "offline")
    assert decision.explanations["salient_features"] == ["told"]
    (thread,) = stored(MailThread)
    assert (thread.classification, thread.status) == (category, status)
    (action,) = stored(Action)
    assert action.action_type == ActionType.APPLY_LABEL
    assert action.parameters == {"label": LABEL_NAMES[category.label]}
    assert action.decision_id == decision.pk
    (job,) = jobs("action.gmail")
    assert job.payload["action_id"] == str(action.pk)
    assert job.lock_key == f"gmail-thread:{thread.pk}"
    assert job.idempotency_key == f"action.gmail:{mailbox.account.pk}:{action.pk}"
    event = only(stored(MailEvent), event_type=EventType.CLASSIFIED)
    assert event.detail["category"] == category
    act(mailbox)
    assert category_labels(mailbox, arrived) == [LABEL_NAMES[category.label]]


@pytest.mark.req("M-09", "M-12")
def test_what_is_too_unsure_is_kept_and_not_shown(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    unsure = FixedClassifier(Category.NEEDS_RESPONSE, labelled=False)
    judge(mailbox, arrived, classifier=unsure)
    (decision,) = stored(Decision)
    assert (decision.category, decision.labelled) == ("needs_response", False)
    with firm_scope(mailbox.firm):
        told = [one.title for one in timeline_of(mailbox.message(arrived), is_readable=True)]
    assert "Needs response, 80% sure: not sure enough for a label" in told
    (thread,) = stored(MailThread)
    assert (thread.classification, thread.status) == ("", ThreadStatus.SKIPPED)
    assert stored(Action) == []
    assert jobs("draft") == []
    assert judge(mailbox, arrived, classifier=unsure)["skipped"] is True
    assert unsure.asked == 1


@pytest.mark.req("M-09", "M-12")
def test_a_newer_message_that_leaves_doubt_takes_the_label_away(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    judge(mailbox, arrived, Category.FYI)
    act(mailbox)
    newer = next_letter(mailbox)
    judge(mailbox, newer, classifier=FixedClassifier(Category.FYI, labelled=False))
    act(mailbox)
    assert category_labels(mailbox, arrived, newer) == []
    judge(mailbox, newer, Category.NEEDS_RESPONSE, force=True)
    act(mailbox)
    assert category_labels(mailbox, arrived, newer) == [LABEL_NAMES[LabelKey.NEEDS_RESPONSE]]


@pytest.mark.req("M-09")
def test_a_classified_thread_is_not_judged_again(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    judge(mailbox, arrived)
    classifier = FixedClassifier(Category.FYI)
    result = judge(mailbox, arrived, classifier=classifier)
    assert result["skipped"] is True
    assert classifier.asked == 0
    assert len(stored(Decision)) == 1


@pytest.mark.req("M-09")
def test_force_judges_again_and_swaps_the_label(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    judge(mailbox, arrived, Category.FYI)
    act(mailbox)
    judge(mailbox, arrived, Category.NEEDS_RESPONSE, force=True)
    act(mailbox)
    assert category_labels(mailbox, arrived) == [LABEL_NAMES[Category.NEEDS_RESPONSE.label]]
    (thread,) = stored(MailThread)
    assert (thread.classification, thread.status) == (Category.NEEDS_RESPONSE, "pending")
    assert len(stored(Decision)) == 2


@pytest.mark.req("M-09")
def test_a_retried_job_does_not_decide_twice(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    job_id = uuid4()
    judge(mailbox, arrived, force=True, job_id=job_id)
    assert judge(mailbox, arrived, force=True, job_id=job_id)["skipped"] is True
    assert len(stored(Decision)) == 1
    assert len(stored(Action)) == 1


@pytest.mark.req("M-09")
def test_a_newer_message_reopens_the_thread_and_takes_the_label_over(mailbox: Mailbox) -> None:
    first = first_letter(mailbox)
    judge(mailbox, first, Category.FYI)
    act(mailbox)
    second = next_letter(mailbox)
    result = judge(mailbox, second, Category.ACTION_REQUIRED)
    act(mailbox)
    assert result["message_id"] == str(mailbox.message(second).pk)
    assert category_labels(mailbox, first, second) == [LABEL_NAMES[Category.ACTION_REQUIRED.label]]
    assert category_labels(mailbox, first) == []


@pytest.mark.req("M-09")
def test_an_older_message_that_comes_late_does_not_reopen(mailbox: Mailbox) -> None:
    first = first_letter(mailbox)
    judge(mailbox, first)
    older = next_letter(mailbox, days=-3)
    assert judge(mailbox, older)["skipped"] is True
    assert len(stored(Decision)) == 1


@pytest.mark.req("M-09")
def test_a_message_dated_ahead_hides_nothing_that_comes_later(mailbox: Mailbox) -> None:
    first = letter("Price", message_id="<1@x.example>")
    judged = mailbox.receive(first, at=datetime(2200, 1, 1, tzinfo=UTC))
    mailbox.store_all()
    judge(mailbox, judged)
    dated = mailbox.message(judged).internal_date
    assert dated <= datetime.now(UTC) + timedelta(seconds=5)

    answer = letter("Re: Price", "And the date?", reply_to_id="<1@x.example>")
    later = mailbox.receive(answer, at=datetime.now(UTC) + timedelta(seconds=1))
    # A message that is fetched again does not become the newest one.
    mailbox.store_all()
    assert mailbox.message(judged).internal_date == dated
    assert judge(mailbox, later)["message_id"] == str(mailbox.message(later).pk)


@pytest.mark.req("M-09")
def test_of_several_new_messages_the_newest_is_judged_once(mailbox: Mailbox) -> None:
    first = first_letter(mailbox)
    second = next_letter(mailbox)
    result = judge(mailbox, first)
    assert result["message_id"] == str(mailbox.message(second).pk)
    assert judge(mailbox, second)["skipped"] is True


@pytest.mark.req("M-09")
def test_an_older_verdict_that_comes_late_does_not_replace_one_of_a_page(mailbox: Mailbox) -> None:
    first = first_letter(mailbox)

    class Slow(FixedClassifier):
        def classify(self, mail: MailContext) -> Classification:
            newest = mailbox.message(next_letter(mailbox))
            classify_page(mailbox.account, [newest.pk], FixedClassifier(), job_id=uuid4())
            return super().classify(mail)

    skipped = judge(mailbox, first, classifier=Slow(Category.FYI))
    assert "newer mail" in str(skipped["reason"])
    (thread,) = stored(MailThread)
    assert thread.classification == Category.NEEDS_RESPONSE
    assert [one.category for one in stored(Decision)] == [Category.NEEDS_RESPONSE]


@pytest.mark.req("M-09")
def test_the_owners_answer_reopens_the_thread_as_seen_from_the_question(mailbox: Mailbox) -> None:
    first = first_letter(mailbox)
    judge(mailbox, first)
    answer = next_letter(mailbox, sender=OWNER)
    classifier = FixedClassifier(Category.WAITING)
    result = judge(mailbox, answer, classifier=classifier)
    assert result["message_id"] == str(mailbox.message(first).pk)
    assert classifier.seen is not None
    assert classifier.seen.user_wrote_last
    assert classifier.seen.thread_messages == 2


@pytest.mark.req("M-09")
def test_the_offline_classifier_sees_that_the_owner_wrote_last(mailbox: Mailbox) -> None:
    first_letter(mailbox)
    answer = next_letter(mailbox, sender=OWNER)
    message = mailbox.message(answer)
    result = classify_thread(
        mailbox.account, message.thread_id, message.pk, OfflineClassifier(), job_id=uuid4()
    )
    assert result["category"] == "waiting"


@pytest.mark.req("M-09")
def test_automated_mail_never_asks_for_a_response(mailbox: Mailbox) -> None:
    raw = letter("Could you help me?", "Can you answer me today?", List_Id="<list.x.example>")
    arrived = mailbox.receive(raw)
    mailbox.store_all()
    message = mailbox.message(arrived)
    classify_thread(
        mailbox.account, message.thread_id, message.pk, OfflineClassifier(), job_id=uuid4()
    )
    (decision,) = stored(Decision)
    assert decision.category != Category.NEEDS_RESPONSE
    assert decision.explanations["automated"] is True


@pytest.mark.req("M-09")
def test_a_thread_of_only_the_owners_is_left_alone(mailbox: Mailbox) -> None:
    sent = mailbox.receive(letter("Enquiry", sender=OWNER), labels=("SENT",))
    mailbox.store_all()
    result = judge(mailbox, sent)
    assert result == {
        "skipped": True,
        "reason": "The thread has no message from anybody else",
    }


@pytest.mark.req("M-09")
def test_a_label_change_overtaken_by_a_new_verdict_is_canceled(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    judge(mailbox, arrived, Category.FYI)
    judge(mailbox, arrived, Category.PAYMENT_REQUEST, force=True)
    assert [action.status for action in stored(Action)] == ["canceled", "queued"]
    act(mailbox)
    assert category_labels(mailbox, arrived) == [LABEL_NAMES[Category.PAYMENT_REQUEST.label]]


@pytest.mark.req("M-09")
def test_a_label_change_interrupted_half_way_is_cleaned_up(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    judge(mailbox, arrived, Category.FYI)
    (action,) = stored(Action)
    act(mailbox)
    # As if the worker died after Gmail's answer: the label is in Gmail, but not in the tables.
    with firm_scope(mailbox.firm):
        Action.objects.filter(pk=action.pk).update(status=ActionStatus.EXECUTING)
        mailbox.message(arrived).__class__.objects.update(labels=["INBOX", "UNREAD"])
    judge(mailbox, arrived, Category.WAITING, force=True)
    act(mailbox)
    assert category_labels(mailbox, arrived) == [LABEL_NAMES[Category.WAITING.label]]


@pytest.mark.req("M-09")
def test_the_same_verdict_again_touches_no_label(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    judge(mailbox, arrived)
    act(mailbox)
    judge(mailbox, arrived, force=True)
    assert len(stored(Action)) == 1


@pytest.mark.req("M-09")
def test_a_message_of_another_thread_or_mailbox_is_refused(mailbox: Mailbox) -> None:
    arrived = first_letter(mailbox)
    message = mailbox.message(arrived)
    with pytest.raises(RowGone):
        classify_thread(mailbox.account, uuid4(), message.pk, FixedClassifier(), job_id=uuid4())
    assert stored(Decision) == []


@pytest.mark.req("M-09")
def test_a_thread_whose_mail_is_deleted_while_it_is_judged_is_gone(mailbox: Mailbox) -> None:
    message = mailbox.message(first_letter(mailbox))

    class Deleting(FixedClassifier):
        def classify(self, mail: MailContext) -> Classification:
            with firm_scope(mailbox.firm):
                MailThread.objects.all().delete()
            return super().classify(mail)

    with pytest.raises(RowGone):
        classify_thread(mailbox.account, message.thread_id, message.pk, Deleting(), job_id=uuid4())
    assert stored(Decision) == []
