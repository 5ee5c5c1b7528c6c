"""Proposes rules: mail of a sender gets the category that the person gave it.

A proposal does nothing until somebody tries and enables it. If somebody enables or changes it, it
is their rule.
"""

from __future__ import annotations

from django.utils import timezone

from mail.errors import FaultyInput
from mail.llm.base import Category
from mail.models import EventType, MailAccount, Message, Rule, Scope
from mail.services.mailboxes.accounts import own_addresses
from mail.services.operation import audit
from mail.services.rules.operations import create_rule
from mail.services.rules.settings import MAX_NAME_LENGTH
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE


def propose_rule(account: MailAccount, message: Message, category: Category) -> Rule | None:
    """Propose that mail of the message's sender is of this category; return the proposal, if any.

    A sender gets at most one rule: a proposal follows the newest correction, and a rule that
    belongs to somebody is left as it is. Must run in the firm's scope.
    """
    sender = message.sender_address.lower()
    if not sender or sender in own_addresses(account):
        return None
    rule = _rule_of(account, sender)
    if rule is None:
        try:
            rule = _create(account, sender, category)
        except FaultyInput:
            # Another worker has proposed the rule meanwhile, or no rule can name such an address.
            rule = _rule_of(account, sender)
    elif rule.corrections:
        _follow(rule, category)
    if rule is None or not rule.corrections:
        return None
    detail = {"rule_id": str(rule.pk), "category": str(category)}
    record_event(EventType.RULE_PROPOSED, account, message=message, detail=detail)
    return rule


def _rule_of(account: MailAccount, sender: str) -> Rule | None:
    rows = Rule.objects.filter(account=account, scope=Scope.SENDER, scope_ref=sender)
    found: Rule | None = rows.select_for_update(of=("self",), no_key=True).order_by("pk").first()
    return found


def _create(account: MailAccount, sender: str, category: Category) -> Rule:
    name = f"Mail from {sender}"
    if Rule.objects.filter(name=name[:MAX_NAME_LENGTH]).exists():
        # Another mailbox of the firm has a rule for this sender, or somebody has used the name.
        name = f"{sender} to {account.address}"
    return create_rule(
        account.firm_id,
        name=name[:MAX_NAME_LENGTH],
        account_id=account.pk,
        scope=Scope.SENDER,
        scope_ref=sender,
        conditions={"type": "sender_email", "value": sender},
        category=category,
        corrections=1,
    )


def _follow(rule: Rule, category: Category) -> None:
    before = {"category": rule.category, "corrections": rule.corrections}
    if rule.category != category:
        rule.category, rule.tried_at = category, None
    rule.corrections += 1
    rule.changed_at = timezone.now()
    rule.save(update_fields=["category", "tried_at", "corrections", "changed_at"])
    audit(
        "rule.propose",
        rule,
        SERVICE,
        before=before,
        after={"category": str(category), "corrections": rule.corrections},
    )
