"""Finds the rules that match a message, and switches off rules that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from django.db.models import QuerySet
from django.db.models.functions import Now

from mail.conf import all_rules_apply
from mail.errors import ActionInvalid, ConditionsInvalid
from mail.models import Action, ActionType, Decision, MailAccount, Message, Rule
from mail.rules.conditions import (
    Group,
    LabelPresent,
    Leaf,
    leaves,
    looks_into_mail,
    parse_conditions,
)
from mail.rules.matching import RuleFacts, matches
from mail.services.actions.actions import request_action
from mail.services.operation import audit
from mail.services.rules.labels import MailboxLabels, firm_label_name, is_lost
from mail.services.rules.reach import Reach, safety_mode
from mail.services.rules.scopes import covers, of_mailbox
from mail.services.timelines.threads import is_discarded
from tenants.audit import SERVICE

logger = structlog.get_logger(__name__)

BROKEN = "Its conditions cannot be used"
UNUSABLE = "Its actions cannot be used"


@dataclass(frozen=True)
class AskedRule:
    """An enabled rule with its conditions as they apply in one mailbox."""

    rule: Rule
    condition: Group | Leaf

    def holds(self, facts: RuleFacts) -> bool:
        """Say whether the rule's conditions match."""
        return matches(self.condition, facts)


def facts_of(message: Message) -> RuleFacts:
    """Return the facts of a message that conditions can ask about."""
    return RuleFacts(
        sender_address=message.sender_address.lower(),
        subject=message.subject,
        headers=tuple((name, value) for name, value in message.headers),
        labels=frozenset(message.labels),
    )


def enabled_rules(account: MailAccount) -> list[AskedRule]:
    """Return the rules that may match the mailbox's messages, by priority, to be used for many.

    Must run in the firm's scope.
    """
    return asked_in(account, _enabled(account))


def asked_in(account: MailAccount, rules: Iterable[Rule]) -> list[AskedRule]:
    """Return the enabled rules that apply in the mailbox, in order.

    A rule that looks into mail which its enabler may not read is left out; a rule that cannot be
    used is switched off with the reason. Must run in the firm's scope.
    """
    reach, labels = Reach(account), MailboxLabels(account.pk)
    found = []
    for rule in rules:
        try:
            condition = parse_conditions(rule.conditions)
        except ConditionsInvalid as error:
            disable_rule(rule, f"{BROKEN}: {error}"[:500])
            continue
        if reach.covers_mail(rule) or not looks_into_mail(condition):
            condition = labels.with_ids(condition, firm_wide=rule.account_id is None)
            found.append(AskedRule(rule, condition))
    return found


def matching_rules(
    account: MailAccount, message: Message, *, among: Iterable[AskedRule] | None = None
) -> list[Rule]:
    """Return the enabled rules that match the message, by priority.

    Unless the setting RULES_APPLY is "all", only the first is returned. `among` are the mailbox's
    `enabled_rules`, which are read if not given. Must run in the firm's scope.
    """
    facts = facts_of(message)
    found = []
    for asked in enabled_rules(account) if among is None else among:
        rule = asked.rule
        if covers(rule, facts.sender_address) and rule.enabled and asked.holds(facts):
            found.append(rule)
            if not all_rules_apply():
                break
    return found


def request_actions(rule: Rule, message: Message, decision: Decision | None = None) -> None:
    """Request the rule's actions on the message, in order. Must run in the firm's scope.

    They are requested once, however often the message is judged, unless the rule's conditions or
    actions were changed since; and never on messages in trash or spam. A rule whose actions can no
    longer be used is switched off with the reason.
    """
    if is_discarded(message) or not is_to_act(rule, message):
        return
    mode = safety_mode(rule, message.account)
    try:
        for one in rule.actions:
            request_action(
                message,
                ActionType(one["action"]),
                _parameters(rule, one["parameters"]),
                decision=decision,
                rule=rule,
                mode=mode,
            )
    except (ActionInvalid, LookupError, TypeError, ValueError) as error:
        # Stored rows may come from an import or another version, with any content.
        why = error if isinstance(error, ActionInvalid) else "it cannot be read"
        disable_rule(rule, f"{UNUSABLE}: {why}"[:500])


def is_to_act(rule: Rule, message: Message) -> bool:
    """Say whether the rule, as it is now, has not acted on the message yet. Must run in scope."""
    return bool(rule.actions) and not acted_on(rule).filter(message=message).exists()


def acted_on(rule: Rule) -> QuerySet[Action]:
    """Return the actions that the rule, as it is now, has requested. Must run in the firm's scope.

    A change of name or priority, or switching it off and on, leaves the rule the same.
    """
    # A change that makes it another rule empties `tried_at`, and only a tried rule is enabled. In
    # old rows `tried_at` may be the time of a later trial: then `changed_at` is the earlier one.
    since = rule.changed_at if rule.tried_at is None else min(rule.tried_at, rule.changed_at)
    actions: QuerySet[Action] = Action.objects.filter(rule=rule, created_at__gte=since)
    return actions


def _parameters(rule: Rule, stored: dict[str, Any]) -> dict[str, Any]:
    if rule.account_id is None and "label" in stored:
        return {**stored, "label": firm_label_name(stored["label"])}
    return stored


def disable_rule(rule: Rule, reason: str) -> None:
    """Switch a rule off because it cannot be used. Must run in the firm's scope."""
    updated = Rule.objects.filter(pk=rule.pk, enabled=True).update(
        enabled=False, disabled_reason=reason, changed_at=Now()
    )
    if not updated:
        return
    rule.enabled, rule.disabled_reason = False, reason
    logger.warning("mail.rule_disabled", rule_id=str(rule.pk), firm_id=rule.firm_id)
    audit("rule.disable", rule, SERVICE, reason, before={"enabled": True}, after={"enabled": False})


def disable_rules_of_labels(account: MailAccount, labels: Iterable[tuple[str, str]]) -> int:
    """Switch off the rules that name labels Gmail no longer has; return how many.

    `labels` are ids and names. Must run in the firm's scope.
    """
    gone = dict(labels)
    disabled = 0
    for rule in Rule.objects.filter(of_mailbox(account), enabled=True):
        lost = _lost_label(rule, account, gone)
        if lost is not None:
            disable_rule(rule, f"Label '{gone.get(lost, lost)}' was deleted from Gmail")
            disabled += 1
    return disabled


def _lost_label(rule: Rule, account: MailAccount, gone: dict[str, str]) -> str | None:
    asked = _labels_asked(rule)
    if rule.account_id is None:
        # Other mailboxes may still have the label, and an action creates the label that it names.
        return next((one for one in asked if is_lost(one, account.pk, gone)), None)
    names = {name.casefold() for name in gone.values()}
    named = [*asked, *(one["parameters"].get("label", "") for one in rule.actions)]
    return next((one for one in named if one in gone or one.casefold() in names), None)


def _labels_asked(rule: Rule) -> list[str]:
    try:
        found = leaves(parse_conditions(rule.conditions))
    except ConditionsInvalid:
        return []
    return [leaf.label for leaf in found if isinstance(leaf, LabelPresent)]


def _enabled(account: MailAccount) -> QuerySet[Rule]:
    rules: QuerySet[Rule] = Rule.objects.filter(of_mailbox(account), enabled=True)
    return rules.order_by("priority", "created_at", "pk")
