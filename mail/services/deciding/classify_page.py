"""Judges the threads of a page of messages in a few statements.

Only threads that nobody has judged or labelled yet, and that no action is changing. From the others
the present label must be removed, in order and under the thread's lock, so each gets its own
`classify` job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from mail.labels import STATE_LABELS
from mail.llm.base import Category, Classification, Classifier
from mail.models import (
    UNFINISHED,
    Action,
    ActionType,
    Decision,
    EventType,
    MailAccount,
    MailLabel,
    MailThread,
    Message,
)
from mail.services.deciding.classify import (
    OUTLINE,
    Case,
    event_detail,
    follow_decision,
    judge,
    new_decision,
    shown_category,
    status_after,
)
from mail.services.deciding.mail_context import mail_context, sender_histories
from mail.services.deciding.relabel import label_name
from mail.services.deciding.requests import enqueue_classify
from mail.services.drafting.reply_plan import contacts_for, is_blocked
from mail.services.mailboxes.accounts import own_addresses
from mail.services.mailboxes.modes import to_be_labelled
from mail.services.queueing import enqueue_label_page
from mail.services.rules.rules import enabled_rules, matching_rules
from mail.services.rules.unseen import (
    act_by_rules,
    held_unseen,
    lock_for_answers,
    unseen_by_verdicts,
)
from mail.services.timelines.automatic_mail import automatic_ids, has_news, without
from mail.services.timelines.events import record_events
from mail.services.timelines.threads import newest_to_answer
from tenants.scope import firm_scope

logger = structlog.get_logger(__name__)

Judged = tuple[Case, Classification, str]
"""A thread with its verdict and the verdict's source."""


@dataclass
class Docket:
    """The threads to judge together, and one message of each thread that is to be judged alone."""

    cases: list[Case] = field(default_factory=list)
    alone: list[Message] = field(default_factory=list)


def classify_page(
    account: MailAccount, message_ids: Sequence[UUID], classifier: Classifier, *, job_id: UUID
) -> dict[str, Any]:
    """Judge the threads of these messages, and return the job's result.

    Threads that are judged already are skipped; those that cannot be judged here get a `classify`.
    """
    with firm_scope(account.firm_id):
        docket = _open_docket(account, message_ids)
    judged: list[Judged] = []
    for case in docket.cases:
        try:
            judged.append((case, *judge(case, classifier)))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others are judged
            logger.warning("mail.left_the_page", error_class=type(error).__name__)
            docket.alone.append(case.target)
    with firm_scope(account.firm_id):
        decisions = _decide(account, docket, judged, job_id=job_id)
        for message in docket.alone:
            enqueue_classify(message)
    return {"classified": len(decisions), "classified_alone": len(docket.alone)}


def classify_each(account: MailAccount, message_ids: Sequence[UUID]) -> dict[str, Any]:
    """Have each message's thread judged by a `classify` of its own; return the job's result."""
    with firm_scope(account.firm_id):
        messages = Message.objects.filter(account=account, pk__in=message_ids)
        for message in messages.only("account_id", "thread_id", "firm_id"):
            enqueue_classify(message)
    return {"classified": 0, "classified_alone": len(message_ids)}


def _open_docket(account: MailAccount, message_ids: Sequence[UUID]) -> Docket:
    asked = Message.objects.filter(account=account, pk__in=message_ids)
    threads = list(MailThread.objects.filter(pk__in=asked.values("thread_id")))
    outlines: dict[UUID, list[Message]] = defaultdict(list)
    outlined = Message.objects.filter(thread__in=threads)
    for message in outlined.order_by("-internal_date", "-gmail_message_id").only(*OUTLINE):
        outlines[message.thread_id].append(message)
    busy = _busy_threads(account, outlines)
    automatic = automatic_ids(one for messages in outlines.values() for one in messages)
    docket = Docket()
    fresh: dict[UUID, tuple[MailThread, list[Message]]] = {}
    for thread in threads:
        messages = outlines[thread.pk]
        target = newest_to_answer(messages)
        if target is None or not has_news(thread, messages, automatic):
            continue
        if thread.classification or thread.pk in busy:
            docket.alone.append(messages[0])
        else:
            fresh[target.pk] = (thread, messages)
    owners, rules = own_addresses(account), enabled_rules(account)
    contacts = contacts_for(account)
    rows = Message.objects.filter(pk__in=fresh).defer("html").prefetch_related("attachments")
    targets = list(rows)
    histories = sender_histories(account, targets)
    for target in targets:
        thread, messages = fresh[target.pk]
        said = without(messages, automatic)
        context = mail_context(target, said, owners, histories.get(target.pk))
        held = matching_rules(account, target, among=rules)
        blocked = is_blocked(target.sender_address, contacts)
        unseen = held_unseen(account, thread, messages, target, among=rules)
        case = Case(thread, messages, target, context, held, blocked, unseen, automatic)
        docket.cases.append(case)
    return docket


def _busy_threads(account: MailAccount, outlines: dict[UUID, list[Message]]) -> set[UUID]:
    """Return the threads with an unfinished action, or with the label of a state."""
    actions = Action.objects.filter(message__thread_id__in=outlines, status__in=UNFINISHED)
    busy = set(actions.values_list("message__thread_id", flat=True))
    own = MailLabel.objects.filter(account=account, key__in=list(STATE_LABELS))
    labels = set(own.values_list("gmail_label_id", flat=True))
    for thread_id, messages in outlines.items():
        if any(labels.intersection(message.labels) for message in messages):
            busy.add(thread_id)
    return busy


def _decide(
    account: MailAccount,
    docket: Docket,
    judged: Iterable[Judged],
    *,
    job_id: UUID,
) -> list[Decision]:
    """Store the verdicts, the threads' new states, the events, and the label changes with a job.

    If older mail of a thread was stored meanwhile, on which rules have to act, the thread is left
    to be judged alone.
    """
    by_thread = {one[0].thread.pk: one for one in judged}
    lock_for_answers(account, [held for case, *_ in by_thread.values() for held in case.held])
    locked = (
        MailThread.objects.filter(pk__in=by_thread).select_for_update(no_key=True).order_by("pk")
    )
    # Another job may have judged one of them meanwhile.
    threads = [
        thread
        for thread in locked
        if not thread.classification and by_thread[thread.pk][0].sees_news(thread)
    ]
    seen = {thread.pk: by_thread[thread.pk][0].messages for thread in threads}
    behind = unseen_by_verdicts(account, seen)
    docket.alone += [by_thread[thread_id][0].target for thread_id in behind]
    threads = [thread for thread in threads if thread.pk not in behind]
    decisions, events = [], []
    for thread in threads:
        case, verdict, source = by_thread[thread.pk]
        decision = new_decision(account, case, verdict, source=source, job_id=job_id)
        thread.classification = shown_category(verdict)
        thread.status = status_after(thread.classification, thread, reopened=case.reopened)
        thread.classified_upto = case.messages[0]
        decisions.append(decision)
        events.append((case.target, event_detail(decision, previous="")))
    if not threads:
        return []
    Decision.objects.bulk_create(decisions)
    MailThread.objects.bulk_update(threads, ["classification", "status", "classified_upto"])
    record_events(EventType.CLASSIFIED, account, events)
    _act(account, decisions, [by_thread[thread.pk][0] for thread in threads])
    return decisions


def _act(account: MailAccount, decisions: Sequence[Decision], cases: Sequence[Case]) -> None:
    """Request the labels that show the decisions, the drafts, and the actions of rules."""
    shown = {one.pk for one in to_be_labelled(account, [each.message for each in decisions])}
    actions: list[Action] = Action.objects.bulk_create(
        [
            Action(
                account=account,
                message=decision.message,
                decision=decision,
                action_type=ActionType.APPLY_LABEL,
                parameters={"label": label_name(Category(decision.category))},
            )
            for decision in decisions
            if decision.message_id in shown and decision.labelled
        ]
    )
    enqueue_label_page(actions)
    for decision in decisions:
        if decision.message_id in shown and decision.category == Category.NEEDS_RESPONSE:
            follow_decision(decision)
    for case, decision in zip(cases, decisions, strict=True):
        if case.target.pk in shown:
            act_by_rules(account, (case.target, case.rules), case.unseen, decision)
