"""Operations on rules: create, change, try, enable, disable, delete, apply to old mail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs.engine.clock import database_now
from jobs.queue import EnqueueResult
from mail.errors import RuleInvalid, WrongState
from mail.models import MailAccount, Message, Rule
from mail.rules.conditions import parse_conditions
from mail.rules.matching import matches
from mail.services.mailboxes.content_access import readable
from mail.services.operation import audit, on_locked_row, save_named, set_changed
from mail.services.queueing import enqueue_rule
from mail.services.rules.labels import MailboxLabels, named_conditions
from mail.services.rules.reach import Limits
from mail.services.rules.rules import facts_of
from mail.services.rules.scopes import in_scope
from mail.services.rules.settings import DEFAULTS, checked_settings
from mail.services.timelines.threads import is_discarded
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

# How many of the newest messages a trial reads.
TRY_MESSAGES = 500
SETTINGS = ("name", "conditions", *DEFAULTS)
# Changes of these settings do not change the result of a trial.
_HARMLESS = frozenset({"name", "priority"})


@dataclass(frozen=True)
class Trial:
    """A trial's result: the messages that matched, newest first, of the `looked_at` that were read.

    `limits` says where the rule would do less if the person who tries it enabled it.
    """

    looked_at: int
    matched: list[Message]
    limits: str = ""


def create_rule(firm_id: int, *, by: Actor = SERVICE, **settings: Any) -> Rule:
    """Store a new rule, disabled, because it has to be tried first.

    Raises:
        RuleInvalid: a setting cannot be used.
        ConditionsInvalid: the conditions cannot be used.
    """
    with firm_scope(firm_id):
        rule = Rule(firm_id=firm_id, **checked_settings({**DEFAULTS, **settings}))
        save_named(rule, RuleInvalid, "rule")
        audit("rule.create", rule, by, after=_settings(rule))
    return rule


@on_locked_row
def change_rule(rule: Rule, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any) -> Rule:
    """Change settings of a rule; if that changes what it does, it has to be tried again.

    Raises:
        RuleInvalid: a setting cannot be used.
        ConditionsInvalid: the conditions cannot be used.
    """
    before = _settings(rule)
    checked = checked_settings({**_named_settings(rule), **settings})
    if _is_about_same(rule, checked):
        checked["conditions"] = before["conditions"]
    was, now = set_changed(rule, before, checked)
    if not now:
        return rule
    if now.keys() - _HARMLESS:
        rule.enabled, rule.tried_at, rule.disabled_reason = False, None, ""
    # A proposal that a person changes is no longer a proposal.
    rule.corrections, rule.changed_at = 0, database_now()
    save_named(rule, RuleInvalid, "rule")
    audit("rule.change", rule, by, reason, before=was, after=now)
    return rule


@on_locked_row
def delete_rule(rule: Rule, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete a rule; what it decided stays."""
    audit("rule.delete", rule, by, reason, before=_settings(rule))
    rule.delete()


@on_locked_row
def try_rule(rule: Rule, *, user_id: Any, by: Actor = SERVICE, reason: str = "") -> Trial:
    """Return what the rule would have matched among the newest mail that the user may read.

    Nothing is changed, except that the rule counts as tried since the first trial of it as it is.

    Raises:
        ConditionsInvalid: the conditions can no longer be used.
    """
    trial = matches_of(rule, user_id)
    trial = replace(trial, limits=Limits().of(rule, by.user))
    # A later trial keeps the time, because the rule must not repeat what it did since then.
    Rule.objects.filter(pk=rule.pk, tried_at=None).update(tried_at=Now())
    found = {"looked_at": trial.looked_at, "matched": len(trial.matched)}
    audit("rule.try", rule, by, reason, after=found)
    return trial


def matches_of(rule: Rule, user_id: Any) -> Trial:
    """Return what the rule matches among the newest mail that the user may read.

    Must run in the firm's scope.

    Raises:
        ConditionsInvalid: the conditions can no longer be used.
    """
    condition, firm_wide = parse_conditions(rule.conditions), rule.account_id is None
    messages = list(
        _messages_of(rule)
        .filter(readable(user_id, "account__"))
        .defer("text", "html", "hidden_text")
        .order_by("-internal_date", "-pk")[:TRY_MESSAGES]
    )
    asked = {
        account_id: MailboxLabels(account_id).with_ids(condition, firm_wide=firm_wide)
        for account_id in {one.account_id for one in messages}
    }
    found = [
        one
        for one in messages
        if not is_discarded(one) and matches(asked[one.account_id], facts_of(one))
    ]
    return Trial(len(messages), found)


@on_locked_row
def enable_rule(rule: Rule, *, by: Actor = SERVICE, reason: str = "") -> Rule:
    """Enable the rule for mail from now on, as far as the actor may read that mail.

    Raises:
        WrongState: it is enabled, or was not tried since its last change.
        ConditionsInvalid: its conditions cannot be used.
        RuleInvalid: another setting cannot be used.
    """
    if rule.enabled:
        raise WrongState("The rule is enabled already.")
    if rule.tried_at is None:
        raise WrongState("Try the rule first: it was not tried since it was made or changed.")
    checked_settings(_named_settings(rule))
    rule.enabled_by_id = by.user_id
    return _switch(rule, by, reason, "rule.enable", enabled=True)


@on_locked_row
def switch_off_rule(rule: Rule, *, by: Actor = SERVICE, reason: str = "") -> Rule:
    """Disable the rule.

    Raises:
        WrongState: it is not enabled.
    """
    if not rule.enabled:
        raise WrongState("The rule is not enabled.")
    return _switch(rule, by, reason, "rule.disable", enabled=False)


@on_locked_row
def apply_to_old_mail(
    rule: Rule, *, days: int, by: Actor = SERVICE, reason: str = ""
) -> list[EnqueueResult]:
    """Have the rule's actions applied to mail of the last days, by a job for each mailbox.

    Raises:
        WrongState: the rule is not enabled, or has no actions.
    """
    if not rule.enabled:
        raise WrongState("The rule is not enabled.")
    if not rule.actions:
        raise WrongState("The rule has no actions; its category applies to new mail only.")
    accounts = MailAccount.objects.filter(active=True)
    if rule.account_id is not None:
        accounts = accounts.filter(pk=rule.account_id)
    results = [enqueue_rule(rule, account, days=days) for account in accounts]
    audit(
        "rule.apply", rule, by, reason,
        after={"days": days, "jobs": [str(result.job.pk) for result in results]},
    )  # fmt: skip
    return results


def _messages_of(rule: Rule) -> QuerySet[Message]:
    messages = Message.objects.filter(in_scope(rule), outgoing=False).select_related("account")
    found: QuerySet[Message] = messages
    return found if rule.account_id is None else found.filter(account_id=rule.account_id)


def _switch(rule: Rule, by: Actor, reason: str, operation: str, *, enabled: bool) -> Rule:
    before = {"enabled": rule.enabled, "disabled_reason": rule.disabled_reason}
    rule.enabled, rule.disabled_reason, rule.corrections = enabled, "", 0
    rule.changed_at = database_now()
    rule.save(
        update_fields=["enabled", "enabled_by", "disabled_reason", "corrections", "changed_at"]
    )
    audit(operation, rule, by, reason, before=before, after={"enabled": enabled})
    return rule


def _settings(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in SETTINGS}


def _named_settings(rule: Rule) -> dict[str, Any]:
    """Return the settings with the names of labels, which hold in another mailbox, too."""
    return {
        **_settings(rule),
        "conditions": named_conditions(rule.conditions, rule.account_id),
    }


def _is_about_same(rule: Rule, checked: dict[str, Any]) -> bool:
    """Say whether checked conditions are the rule's, however its labels are stored."""
    if checked["account_id"] != rule.account_id:
        return False
    given = named_conditions(checked["conditions"], rule.account_id)
    return bool(given == named_conditions(rule.conditions, rule.account_id))
