"""Hands new messages to the pipeline or to an agent, as the first matching routing rule says.

The rules are applied after the message is stored, because Gmail's history gives only its id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import structlog

from jobs.queue import enqueue
from jobs.states import Priority
from mail.errors import RoutingInvalid
from mail.models import EventType, MailAccount, MailEvent, Message, Route, RoutingRule
from mail.rules.routing import RouteFacts, parse_match, route_matches
from mail.services.deciding.model_calls import configured_client
from mail.services.deciding.requests import enqueue_classifies
from mail.services.operation import audit
from mail.services.rules.reach import Reach
from mail.services.rules.scopes import of_mailbox
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE

AGENT_TYPE = "agent_process"
NO_MODEL = "No language model is configured"

_log = structlog.get_logger("mail")


def hand_over(account: MailAccount, messages: Sequence[Message]) -> list[Message]:
    """Enqueue what the messages' routes ask for; return the messages that go through the pipeline.

    Without a matching rule a message does. It is handed to an agent only once. Must run in the
    firm's scope.
    firm's scope.
    """
    routed = _matches(account, [message for message in messages if not message.outgoing])
    known = set(
        MailEvent.objects.filter(
            message_id__in=list(routed), event_type=EventType.ROUTED
        ).values_list("message_id", flat=True)
        if routed
        else ()
    )
    to_pipeline = []
    for message in messages:
        rule = routed.get(message.pk)
        if rule is None or not _to_agent(account, message, rule, known):
            to_pipeline.append(message)
    enqueue_classifies(_newest_of_each_thread(to_pipeline))
    return to_pipeline


def _to_agent(
    account: MailAccount, message: Message, rule: RoutingRule, known: Collection[Any]
) -> bool:
    """Say whether the message goes to an agent; the first time, hand it over and record that."""
    agent, usable = rule.route == Route.AGENT, configured_client() is not None
    if message.pk not in known:
        detail: dict[str, Any] = {"rule_id": str(rule.pk), "route": rule.route}
        if agent:
            detail["profile"] = rule.profile
        if agent and not usable:
            detail |= {"route": Route.PIPELINE.value, "reason": NO_MODEL}
        record_event(EventType.ROUTED, account, message=message, detail=detail)
        if agent and usable:
            _enqueue_agent(message, rule)
    return agent and usable


def _newest_of_each_thread(messages: Iterable[Message]) -> list[Message]:
    newest: dict[Any, Message] = {}
    for message in messages:
        other = newest.get(message.thread_id)
        if other is None or other.internal_date <= message.internal_date:
            newest[message.thread_id] = message
    return list(newest.values())


def _enqueue_agent(message: Message, rule: RoutingRule) -> None:
    enqueue(
        AGENT_TYPE,
        {
            "account_id": message.account_id,
            "message_id": message.pk,
            "thread_id": message.thread_id,
            "profile": rule.profile,
            "route_rule": rule.name,
        },
        priority=Priority.NORMAL,
    )


def _matches(account: MailAccount, messages: Sequence[Message]) -> dict[Any, RoutingRule]:
    """Return the first rule that matches each message, by the message's id.

    A rule that looks into mail which its enabler may not read is left out.
    """
    asked = RoutingRule.objects.filter(of_mailbox(account), enabled=True)
    rules = list(asked.order_by("position", "created_at", "pk")) if messages else []
    found: dict[Any, RoutingRule] = {}
    reach = Reach(account)
    for rule in rules:
        try:
            match = parse_match(rule.match)
            if match.looks_into_mail and not reach.covers_mail(rule):
                continue
            hits = [one.pk for one in messages if route_matches(match, _facts_of(one))]
        except (RoutingInvalid, ValueError) as error:
            _switch_off(rule, str(error))
            continue
        for message_id in hits:
            found.setdefault(message_id, rule)
    return found


def _facts_of(message: Message) -> RouteFacts:
    return RouteFacts(
        sender_address=message.sender_address,
        subject=message.subject,
        headers=tuple((name, value) for name, value in message.headers),
        text=message.text,
    )


def _switch_off(rule: RoutingRule, reason: str) -> None:
    RoutingRule.objects.filter(pk=rule.pk).update(enabled=False, disabled_reason=reason)
    _log.warning("mail.routing_rule_disabled", rule_id=str(rule.pk), firm_id=rule.firm_id)
    audit(
        "routing_rule.disable",
        rule,
        SERVICE,
        reason,
        before={"enabled": True},
        after={"enabled": False},
    )
