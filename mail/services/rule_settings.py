"""The settings of a rule, checked before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mail.errors import ActionInvalid, RuleInvalid
from mail.llm.base import Category
from mail.models import ActionType, MailAccount, RuleScope, SafeMode
from mail.rules.conditions import parse_conditions
from mail.services.action_types import check_parameters

MAX_ACTIONS = 10
MAX_PRIORITY = 10_000
MAX_NAME_LENGTH = 100
DEFAULTS: dict[str, Any] = {
    "account_id": None,
    "scope": RuleScope.GLOBAL,
    "scope_ref": "",
    "priority": 100,
    "category": "",
    "actions": [],
    "safe_mode": SafeMode.DEFAULT,
}


def checked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as they are stored. Must run in the firm's scope.

    Raises:
        RuleInvalid: a setting cannot be used; `errors` says which and why.
        ConditionsInvalid: the conditions cannot be used.
    """
    faults = [
        *_name_faults(settings),
        *_scope_faults(settings),
        *_action_faults(settings["actions"]),
    ]
    if settings["category"] not in ("", *Category):
        faults.append(fault("category", f"must be one of {', '.join(Category)}, or empty"))
    if settings["safe_mode"] not in SafeMode.values:
        faults.append(fault("safe_mode", f"must be one of {', '.join(SafeMode.values)}"))
    if not settings["category"] and not settings["actions"]:
        faults.append(fault("actions", "is empty, and so is the category: the rule does nothing"))
    if faults:
        raise RuleInvalid(faults)
    tree = parse_conditions(settings.get("conditions")).model_dump(mode="json")
    return {**settings, "conditions": tree, "scope_ref": settings["scope_ref"].strip().lower()}


def _name_faults(settings: dict[str, Any]) -> list[dict[str, str]]:
    name = settings.get("name", "")
    faults = []
    if not name.strip() or len(name) > MAX_NAME_LENGTH:
        faults.append(fault("name", f"must have 1 to {MAX_NAME_LENGTH} characters"))
    if not 0 <= settings["priority"] <= MAX_PRIORITY:
        faults.append(fault("priority", f"must be from 0 to {MAX_PRIORITY}"))
    return faults


def _scope_faults(settings: dict[str, Any]) -> list[dict[str, str]]:
    scope, ref = settings["scope"], settings["scope_ref"].strip()
    account_id: UUID | None = settings["account_id"]
    if scope not in RuleScope.values:
        return [fault("scope", f"must be one of {', '.join(RuleScope.values)}")]
    if account_id is not None and not MailAccount.objects.filter(pk=account_id).exists():
        return [fault("account_id", "is no mailbox of this firm")]
    if scope == RuleScope.ACCOUNT and account_id is None:
        return [fault("account_id", "is missing: the scope is one mailbox")]
    if scope == RuleScope.GLOBAL and account_id is not None:
        return [fault("account_id", "must be empty: the scope is all mail of the firm")]
    if scope in (RuleScope.GLOBAL, RuleScope.ACCOUNT) and ref:
        return [fault("scope_ref", "must be empty: the scope names no sender")]
    if scope == RuleScope.DOMAIN and (not ref or "@" in ref or " " in ref):
        return [fault("scope_ref", "must be a domain, such as example.org")]
    if scope == RuleScope.SENDER and ("@" not in ref or " " in ref):
        return [fault("scope_ref", "must be an address, such as ann@example.org")]
    return []


def _action_faults(actions: Any) -> list[dict[str, str]]:
    if not isinstance(actions, Sequence) or isinstance(actions, str) or len(actions) > MAX_ACTIONS:
        return [fault("actions", f"must be a list of at most {MAX_ACTIONS}")]
    return [
        fault(f"actions.{index}", message)
        for index, action in enumerate(actions)
        if (message := _fault_of(action))
    ]


def _fault_of(action: Any) -> str:
    if not isinstance(action, dict) or set(action) != {"action", "parameters"}:
        return 'must be {"action": …, "parameters": {…}}'
    if action["action"] not in ActionType.values:
        return f"has an action that is none of {', '.join(ActionType.values)}"
    if not isinstance(action["parameters"], dict):
        return "has parameters that are no object"
    try:
        check_parameters(ActionType(action["action"]), action["parameters"])
    except ActionInvalid as error:
        return str(error)
    return ""


def fault(field: str, message: str) -> dict[str, str]:
    """Return what is wrong with one setting."""
    return {"field": field, "code": "invalid", "message": message}
