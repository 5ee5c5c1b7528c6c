"""Judges what a thread wants from the person, stores the verdict, and has it shown in Gmail.

The newest message from somebody else is judged, with the whole thread as context. A message newer
than the last verdict, even the person's own answer, re-opens the thread; an automatic answer does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mail.errors import RowGone
from mail.llm.base import (
    DEFAULT_STYLE,
    UNKNOWN_LANGUAGE,
    Category,
    Classification,
    Classifier,
    MailContext,
)
from mail.models import (
    Decision,
    DecisionSource,
    EventType,
    MailAccount,
    MailThread,
    Message,
    Rule,
    ThreadStatus,
)
from mail.rules.automated import automated_signal
from mail.services.deciding.mail_context import mail_context, sender_histories
from mail.services.deciding.overtaken import is_overtaken
from mail.services.deciding.proposals import follow_proposals
from mail.services.deciding.relabel import relabel_thread
from mail.services.drafting.reply_plan import contacts_for, is_blocked, settings_for
from mail.services.drafting.requests import enqueue_draft, enqueue_withdrawals
from mail.services.mailboxes.accounts import own_addresses
from mail.services.mailboxes.modes import may_label
from mail.services.rules.rules import enabled_rules, matching_rules
from mail.services.rules.unseen import Held, act_by_rules, held_unseen, lock_for_answers
from mail.services.timelines.automatic_mail import automatic_ids, has_news, without
from mail.services.timelines.events import record_event
from mail.services.timelines.threads import newest_first, newest_to_answer
from tenants.scope import firm_scope

# The columns to read of the thread's other messages, as whole mails are large.
OUTLINE = ("account", "thread", "outgoing", "labels", "internal_date", "gmail_message_id")


@dataclass(frozen=True)
class Case:
    """A thread to be judged: its messages, newest first, and the one the verdict is about."""

    thread: MailThread
    messages: list[Message]
    target: Message
    context: MailContext
    rules: list[Rule]
    blocked: bool = False
    unseen: list[Held] = field(default_factory=list)
    automatic: frozenset[UUID] = frozenset()

    @property
    def reopened(self) -> bool:
        """Whether the thread has a newer message than its last verdict saw."""
        return self.sees_news(self.thread)

    def sees_news(self, thread: MailThread) -> bool:
        """Say whether it has a newer message than the last verdict on the thread, as read now."""
        return has_news(thread, self.messages, self.automatic)

    @property
    def held(self) -> list[Held]:
        """The messages on which rules may act, the target first."""
        return [(self.target, self.rules), *self.unseen]


@dataclass(frozen=True)
class Skipped:
    """Why a thread is not judged."""

    reason: str

    def asresult_of(self) -> dict[str, Any]:
        """Return the reason as a job's result."""
        return {"skipped": True, "reason": self.reason}


def classify_thread(
    account: MailAccount,
    thread_id: UUID,
    message_id: UUID,
    classifier: Classifier,
    *,
    job_id: UUID,
    force: bool = False,
) -> dict[str, Any]:
    """Judge the thread of this message, and return the job's result.

    A thread that is judged already is skipped, unless `force`. Must run under the thread's lock.

    Raises:
        RowGone: the mailbox has no such message in this thread.
        MailboxWaits: older mail of the thread was stored meanwhile, on which rules have to act.
    """
    with firm_scope(account.firm_id):
        case = open_case(account, thread_id, message_id, job_id=job_id, force=force)
    if isinstance(case, Skipped):
        return case.asresult_of()
    verdict, source = judge(case, classifier)
    with firm_scope(account.firm_id):
        lock_for_answers(account, case.held)
        if is_overtaken(account, case.thread, case.messages):
            return Skipped("The thread was judged meanwhile, with newer mail").asresult_of()
        decision = decide(account, case, verdict, source=source, job_id=job_id)
    return result_of(decision)


def shown_category(verdict: Classification) -> str:
    """Return the thread's category after the verdict; empty if the verdict is too unsure."""
    return str(verdict.category) if verdict.labelled else ""


def result_of(decision: Decision) -> dict[str, Any]:
    """Return what a job says of the decision it made."""
    return {
        "decision_id": str(decision.pk),
        "message_id": str(decision.message_id),
        "category": str(decision.category),
        "confidence": decision.confidence,
    }


def open_case(
    account: MailAccount, thread_id: UUID, message_id: UUID, *, job_id: UUID, force: bool
) -> Case | Skipped:
    """Return the thread to be judged, or why it is not. Must run in the firm's scope.

    Raises:
        RowGone: the mailbox has no such message in this thread.
    """
    found = Message.objects.filter(account=account, thread_id=thread_id, pk=message_id)
    if not found.exists():
        raise RowGone(f"message {message_id} is gone, or not of thread {thread_id}")
    thread: MailThread = MailThread.objects.get(pk=thread_id)
    messages = list(newest_first(thread).only(*OUTLINE))
    automatic = automatic_ids(messages)
    if not force and not has_news(thread, messages, automatic):
        return Skipped("The thread is classified up to its newest message")
    others = [one for one in messages if not one.outgoing]
    if not others:
        return Skipped("The thread has no message from anybody else")
    newest = newest_to_answer(others)
    if newest is None and not force:
        return Skipped("The thread is in the trash or among spam")
    target = Message.objects.defer("html").get(pk=(newest or others[0]).pk)
    if Decision.objects.filter(message=target, job_id=job_id).exists():
        return Skipped("This job has classified the thread already")
    history = sender_histories(account, [target]).get(target.pk)
    said = without(messages, automatic)
    context = mail_context(target, said, own_addresses(account), history)
    asked = enabled_rules(account)
    rules = matching_rules(account, target, among=asked)
    unseen = held_unseen(account, thread, messages, target, among=asked)
    blocked = is_blocked(target.sender_address, contacts_for(account))
    return Case(thread, messages, target, context, rules, blocked, unseen, automatic)


def judge(case: Case, classifier: Classifier) -> tuple[Classification, str]:
    """Return the verdict and its source.

    The blacklist decides, else the first rule that names a category, else the classifier. If the
    owner wrote last, no rule decides, because rules are about other people's mail.
    """
    answered = case.context.user_wrote_last
    deciding = next((rule for rule in case.rules if rule.category and not answered), None)
    if case.blocked:
        why = "The sender is on the blacklist."
        return ruled(Category.FYI, why, "blacklist", case.context), DecisionSource.RULE
    if deciding is None:
        return classifier.classify(case.context), classifier.source
    why = f"The rule “{deciding.name}” matched."
    return ruled(Category(deciding.category), why, "rule", case.context), DecisionSource.RULE


def ruled(category: Category, why: str, feature: str, mail: MailContext) -> Classification:
    """Return a verdict that a person laid down, so that no classifier is asked."""
    return Classification(
        category=category,
        confidence=1.0,
        rationale=why,
        features=(feature,),
        language=UNKNOWN_LANGUAGE,
        style=DEFAULT_STYLE,
        automated=automated_signal(mail.sender, mail.headers) is not None,
    )


def decide(
    account: MailAccount, case: Case, verdict: Classification, *, source: str, job_id: UUID
) -> Decision:
    """Store the verdict, the thread's new state, the event, and the label changes with their jobs.

    Must run in the firm's scope, under the thread's lock.
    """
    decision = new_decision(account, case, verdict, source=source, job_id=job_id)
    decision.save()
    MailThread.objects.filter(pk=case.thread.pk).update(
        classification=shown_category(verdict),
        status=status_after(shown_category(verdict), case.thread, reopened=case.reopened),
        classified_upto=case.messages[0],
    )
    _note_retriage(account, case)
    detail = event_detail(decision, previous=case.thread.classification)
    record_event(EventType.CLASSIFIED, account, message=case.target, detail=detail)
    acts = may_label(account, case.target)
    if acts:
        relabel_thread(decision, case.messages)
        follow_decision(decision)
        act_by_rules(account, (case.target, case.rules), case.unseen, decision)
    if verdict.proposals or verdict.odd_proposals:
        # After the rules, which go before it.
        follow_proposals(decision, verdict.proposals, verdict.odd_proposals, acts=acts)
    return decision


def new_decision(
    account: MailAccount, case: Case, verdict: Classification, *, source: str, job_id: UUID
) -> Decision:
    """Return the decision that holds this verdict, not stored yet."""
    return Decision(
        account=account,
        message=case.target,
        source=source,
        category=verdict.category,
        confidence=verdict.confidence,
        rationale=verdict.rationale,
        explanations={
            "salient_features": list(verdict.features),
            "language": verdict.language,
            "style": verdict.style,
            "automated": verdict.automated,
            "labelled": verdict.labelled,
            "rules": [{"id": str(rule.pk), "name": rule.name} for rule in case.rules],
        },
        job_id=job_id,
    )


def event_detail(decision: Decision, *, previous: str) -> dict[str, Any]:
    """Return what the event of a decision says; `previous` is the thread's category before."""
    return {
        "decision_id": str(decision.pk),
        "category": str(decision.category),
        "previous": previous,
        "source": decision.source,
    }


def status_after(category: str, thread: MailThread, *, reopened: bool) -> ThreadStatus:
    """Return the status of a thread of this category: only `needs_response` waits for a draft.

    `thread` is as it was before the verdict; `reopened` says whether it has a newer message since.
    """
    answered = thread.status in (ThreadStatus.DRAFTED, ThreadStatus.SENT)
    if category == Category.NEEDS_RESPONSE:
        keeps = thread.status == ThreadStatus.DRAFTED and not reopened
        return ThreadStatus.DRAFTED if keeps else ThreadStatus.PENDING
    if category == Category.WAITING and answered:
        return ThreadStatus.SENT
    return ThreadStatus.SKIPPED


def follow_decision(decision: Decision) -> None:
    """Have an answer drafted, or withdraw the drafts of a thread that needs none any more.

    Must run in the firm's scope, after the thread has its new state.
    """
    message = decision.message
    thread = MailThread.objects.get(pk=message.thread_id)
    if thread.classification == Category.NEEDS_RESPONSE:
        waits = thread.status == ThreadStatus.PENDING
        may_be_answered = waits and not decision.explanations.get("automated")
        if may_be_answered and settings_for(decision.account).enabled:
            enqueue_draft(message)
    else:
        enqueue_withdrawals(thread)


def _note_retriage(account: MailAccount, case: Case) -> None:
    """Record that the answer came for which the thread was waiting."""
    waited = case.thread.classification == Category.WAITING and case.reopened
    newest = without(case.messages, case.automatic)[0]
    if waited and not newest.outgoing:
        record_event(EventType.WAITING_RETRIAGED, account, message=newest)
