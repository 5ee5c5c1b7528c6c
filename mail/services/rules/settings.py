"""The settings of a rule, checked before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mail.errors import ActionInvalid, RuleInvalid
from mail.labels import is_own_label
from mail.llm.base import Category
from mail.models import ActionType, SafeMode, Scope
from mail.rules.conditions import parse_conditions
from mail.services.actions.types import check_parameters
from mail.services.rules.labels import (
    MailboxLabels,
    firm_label_name,
    with_label_names,
    with_stored_labels,
)
from mail.services.rules.scopes import fault, scope_faults

MAX_ACTIONS = 10
MAX_PRIORITY = 10_000
MAX_NAME_LENGTH = 100
DEFAULTS: dict[str, Any] = {
    "account_id": None,
    "scope": Scope.GLOBAL,
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
        *scope_faults(settings),
        *_action_faults(settings["actions"]),
    ]
    if settings["category"] not in ("", *Category):
        faults.append(fault("category", f"must be one of {', '.join(Category)}, or empty"))
    if settings["safe_mode"] not in SafeMode.values:
        faults.append(fault("safe_mode", f"must be one of {', '.join(SafeMode.values)}"))
    if not settings["category"] and not settings["actions"]:
        faults.append(fault("actions", "is empty, and so is the category: the rule does nothing"))
    if not faults:
        faults = _label_faults(settings["actions"], settings["account_id"])
    if faults:
        raise RuleInvalid(faults)
    account_id = settings["account_id"]
    condition = with_stored_labels(parse_conditions(settings.get("conditions")), account_id)
    actions = settings["actions"] if account_id else with_label_names(settings["actions"])
    return {
        **settings,
        "conditions": condition.model_dump(mode="json"),
        "actions": actions,
        "scope_ref": settings["scope_ref"].strip().lower(),
    }


def _name_faults(settings: dict[str, Any]) -> list[dict[str, str]]:
    name = settings.get("name", "")
    faults = []
    if not name.strip() or len(name) > MAX_NAME_LENGTH:
        faults.append(fault("name", f"must have 1 to {MAX_NAME_LENGTH} characters"))
    if not 0 <= settings["priority"] <= MAX_PRIORITY:
        faults.append(fault("priority", f"must be from 0 to {MAX_PRIORITY}"))
    return faults


def _action_faults(actions: Any) -> list[dict[str, str]]:
    if not isinstance(actions, Sequence) or isinstance(actions, str) or len(actions) > MAX_ACTIONS:
        return [fault("actions", f"must be a list of at most {MAX_ACTIONS}")]
    return [
        fault(f"actions.{index}", message)
        for index, action in enumerate(actions)
        if (message := _fault_of(action))
    ]


def _label_faults(actions: Sequence[dict[str, Any]], account_id: Any) -> list[dict[str, str]]:
    """Return faults of actions that apply a label with which a person gives Mailroom an order."""
    name_of = firm_label_name if account_id is None else MailboxLabels(account_id).name_of
    return [
        fault(
            f"actions.{index}",
            "applies one of Mailroom's own labels; give the rule a category instead",
        )
        for index, one in enumerate(actions)
        if one["action"] == ActionType.APPLY_LABEL
        and is_own_label(name_of(one["parameters"]["label"]))
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
