"""Limits a rule in a mailbox to what the person who enabled it may read.

If they may not read the mail, the rule may only ask about what every member of the firm sees of it,
and its actions are spared no check: what it sends waits for an approval by somebody who may read.
If nobody is known to have enabled a rule of a single mailbox, it counts as the owner's.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model

from mail.errors import FaultyInput
from mail.models import MailAccount, RoutingRule, Rule, SafeMode
from mail.rules.conditions import looks_into_mail, parse_conditions
from mail.rules.routing import parse_match
from mail.rules.safety import SafetyMode, is_dangerous
from mail.services.mailboxes.content_access import may_read, readable
from tenants.access import access_of
from tenants.models import Role
from tenants.scope import firm_scope

NOBODY = "it is not known who enabled it"


class Reach:
    """Which rules may look into one mailbox's mail; each person is looked up once.

    Must be used in the firm's scope.
    """

    def __init__(self, account: MailAccount) -> None:
        self._account = account
        self._known: dict[Any, bool] = {}

    def covers_mail(self, rule: Rule | RoutingRule) -> bool:
        """Say whether the rule's enabler may read the mail on which the rule acts here."""
        user_id = rule.enabled_by_id
        if user_id is None and rule.account_id is not None:
            user_id = self._account.owner_id
        return self.is_readers(user_id)

    def is_readers(self, user_id: Any) -> bool:
        """Say whether the user may read the mailbox's mail; None means that nobody is known."""
        if self._account.shared:
            return True
        if user_id not in self._known:
            self._known[user_id] = self._may_read(user_id)
        return self._known[user_id]

    def _may_read(self, user_id: Any) -> bool:
        if user_id is None or not may_read(user_id, self._account):
            return False
        user = get_user_model().objects.filter(pk=user_id).first()
        return user is not None and _is_of_firm(user, self._account.firm_id)


def safety_mode(rule: Rule, account: MailAccount) -> SafetyMode:
    """Return the safe mode of the rule's actions in the mailbox. Must run in the firm's scope."""
    mode = SafetyMode(rule.safe_mode)
    if mode == SafetyMode.DEFAULT or Reach(account).covers_mail(rule):
        return mode
    return SafetyMode.DEFAULT


class Limits:
    """Says in which mailboxes rules do less; in a list of rules, each mailbox is counted once."""

    def __init__(self) -> None:
        self._counted: dict[tuple[Any, ...], int] = {}

    def of(self, rule: Rule, person: Any = None) -> str:
        """Say where the rule does less when `person` has enabled it; empty if nowhere.

        For a rule that is enabled already, `enabled_by` is that person.
        """
        person = rule.enabled_by if rule.enabled else person
        try:
            looks = looks_into_mail(parse_conditions(rule.conditions))
        except FaultyInput:
            return ""
        dangerous = [name for one in rule.actions if is_dangerous(name := str(one["action"]))]
        spares = bool(dangerous) and rule.safe_mode == SafeMode.DANGEROUS_OVERRIDE
        if looks:
            return self._limits(rule, person, "It does not read mail in")
        if spares:
            return self._limits(
                rule, person, f"Dangerous actions ({', '.join(dangerous)}) wait for approval in"
            )
        return ""

    def of_routing(self, rule: RoutingRule) -> str:
        """Say in which mailboxes the routing rule is not applied; empty if in none."""
        try:
            looks = parse_match(rule.match).looks_into_mail
        except FaultyInput:
            return ""
        return self._limits(rule, rule.enabled_by, "It does not read mail in") if looks else ""

    def _limits(self, rule: Rule | RoutingRule, person: Any, effect: str) -> str:
        if person is None and rule.account_id is not None and rule.account is not None:
            person = rule.account.owner
        key = (rule.firm_id, rule.account_id, person and person.pk)
        if key not in self._counted:
            self._counted[key] = _unreadable(rule.firm_id, rule.account_id, person)
        count = self._counted[key]
        if not count:
            return ""
        where = "1 private mailbox" if count == 1 else f"{count} private mailboxes"
        what = "it" if count == 1 else "them"
        who = NOBODY if person is None else f"{person.get_username()} may not read {what}"
        return f"{effect} {where}: {who}."


def _unreadable(firm_id: int, account_id: UUID | None, person: Any) -> int:
    """Count the private mailboxes in a rule's scope whose mail the person may not read."""
    with firm_scope(firm_id):
        accounts = MailAccount.objects.filter(shared=False)
        if account_id is not None:
            accounts = accounts.filter(pk=account_id)
        if person is not None and _is_of_firm(person, firm_id):
            accounts = accounts.exclude(readable(person.pk))
        return accounts.count()


def _is_of_firm(user: Any, firm_id: int) -> bool:
    return bool(user.is_active) and access_of(user).may(Role.VIEWER, firm_id)
