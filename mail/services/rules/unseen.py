"""Applies rules to messages of a thread that no verdict is about: other new ones, late ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from uuid import UUID

from mail.models import (
    ActionType,
    Decision,
    EventType,
    MailAccount,
    MailEvent,
    MailThread,
    Message,
    Route,
    Rule,
)
from mail.services.mailboxes.modes import rules_act_on, to_be_labelled
from mail.services.operation import locked_row
from mail.services.rules.rules import (
    AskedRule,
    enabled_rules,
    is_to_act,
    matching_rules,
    request_actions,
)
from mail.services.timelines.threads import is_discarded

Held = tuple[Message, list[Rule]]
"""A message and the rules that match it."""


def held_unseen(
    account: MailAccount,
    thread: MailThread,
    messages: Sequence[Message],
    target: Message | None,
    *,
    among: Sequence[AskedRule],
) -> list[Held]:
    """Return the thread's messages that no verdict has seen, except `target`, and their rules.

    `messages` are the thread's, newest first. Messages outside the inbox, or handed to an agent,
    are left out. If the newest message of the last verdict is deleted, nothing is returned. Must
    run in the firm's scope.
    """
    unseen = takewhile(lambda one: one.pk != thread.classified_upto_id, messages)
    ids = [one.pk for one in unseen if one != target and _waits_for_rules(one)]
    if not ids or not among or _lost_its_place(thread):
        return []
    rows = Message.objects.filter(pk__in=set(ids) - handed_to_agents(ids))
    rows = rows.defer("text", "html", "hidden_text")
    held = [(row, matching_rules(account, row, among=among)) for row in rows.order_by("pk")]
    return [(message, rules) for message, rules in held if rules]


def handed_to_agents(message_ids: Collection[UUID]) -> set[UUID]:
    """Return the messages that were handed to agents, on which no rule acts.

    Must run in the firm's scope.
    """
    routed = MailEvent.objects.filter(
        message_id__in=message_ids, event_type=EventType.ROUTED, detail__route=Route.AGENT.value
    )
    return set(routed.values_list("message_id", flat=True))


def _waits_for_rules(message: Message) -> bool:
    return "INBOX" in message.labels and not (message.outgoing or is_discarded(message))


def _lost_its_place(thread: MailThread) -> bool:
    """Say whether the thread was judged, but the newest message of that verdict is deleted."""
    if thread.classified_upto_id is not None:
        return False
    return bool(thread.classification) or Decision.objects.filter(message__thread=thread).exists()


def lock_for_answers(account: MailAccount, held: Iterable[Held]) -> None:
    """Lock the mailbox if `act_by_rules` will, before the threads, in the order of an ingest.

    Must run in the firm's scope.
    """
    if any(_answers(rule) for _, rules in held for rule in rules):
        locked_row(account)


def _answers(rule: Rule) -> bool:
    # Rows may come from imports and other versions; what has another form does nothing.
    actions = rule.actions if isinstance(rule.actions, list) else []
    asked = [one.get("action") for one in actions if isinstance(one, dict)]
    return ActionType.AUTO_REPLY in asked


def act_by_rules(
    account: MailAccount, target: Held, unseen: Sequence[Held], decision: Decision
) -> None:
    """Request what the rules want done with the judged message and with the unseen ones.

    A message that was handed to an agent may be judged again, with newer mail: no rule acts on it,
    nor on mail from before the mailbox was active.
    Must run in the firm's scope.
    """
    judged, rules = target
    if rules and (not rules_act_on(account, judged) or handed_to_agents([judged.pk])):
        target = judged, []
    shown = to_be_labelled(account, [message for message, _ in unseen]) if unseen else []
    may_act = {one.pk for one in shown if rules_act_on(account, one)}
    for message, rules in (target, *(one for one in unseen if one[0].pk in may_act)):
        for rule in rules:
            request_actions(rule, message, decision)


def act_on_late(account: MailAccount, messages: Sequence[Message]) -> None:
    """Apply rules to new messages that are older than what their threads' last verdict saw.

    No verdict will see them. Must run in the firm's scope, with the mailbox and the threads locked.
    """
    for message, rules in _held(account, _stored_late(messages)):
        for rule in rules:
            request_actions(rule, message)


def unseen_by_verdicts(account: MailAccount, seen: Mapping[UUID, Sequence[Message]]) -> set[UUID]:
    """Return the threads with a message on which rules must act, but which a verdict would miss.

    `seen` are the messages, newest first, that the verdict on each thread has read: an older one
    may have been stored since. Must run in the firm's scope, with the threads locked.
    """
    known = [message.pk for messages in seen.values() for message in messages]
    rows = Message.objects.filter(thread__in=seen).exclude(pk__in=known)
    late = [
        one
        for one in rows.defer("text", "html", "hidden_text")
        if _waits_for_rules(one) and _place(one) < _place(seen[one.thread_id][0])
    ]
    agents = handed_to_agents([one.pk for one in late]) if late else set()
    return {
        message.thread_id
        for message, rules in _held(account, [one for one in late if one.pk not in agents])
        if any(is_to_act(rule, message) for rule in rules)
    }


def _held(account: MailAccount, messages: Sequence[Message]) -> list[Held]:
    shown = to_be_labelled(account, messages) if messages else []
    shown = [message for message in shown if rules_act_on(account, message)]
    asked = enabled_rules(account) if shown else []
    return [(message, matching_rules(account, message, among=asked)) for message in shown]


def _stored_late(messages: Iterable[Message]) -> list[Message]:
    """Return the messages that are older than the newest one their thread's last verdict saw."""
    waiting = [one for one in messages if one.thread.classified_upto_id and _waits_for_rules(one)]
    if not waiting:
        return []
    upto = Message.objects.filter(pk__in=[one.thread.classified_upto_id for one in waiting])
    places = {one.pk: _place(one) for one in upto.only("internal_date", "gmail_message_id")}
    return [one for one in waiting if _place(one) < places[one.thread.classified_upto_id]]


def _place(message: Message) -> tuple[datetime, str]:
    """Return the key by which the messages of a thread are ordered."""
    return message.internal_date, message.gmail_message_id
