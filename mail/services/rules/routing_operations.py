"""Operations on routing rules: create, change, delete."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mail.errors import RoutingInvalid
from mail.models import MailAccount, Route, RoutingRule
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.rules.routing import parse_match
from mail.services.operation import audit, on_locked_row, save_named, set_changed
from mail.services.rules.scopes import fault
from mail.services.rules.settings import MAX_NAME_LENGTH, MAX_PRIORITY
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

DEFAULTS: dict[str, Any] = {
    "account_id": None,
    "position": 100,
    "route": Route.PIPELINE.value,
    "profile": "",
    "enabled": True,
}
SETTINGS = ("name", "match", *DEFAULTS)
# Changes of these settings do not change on which mail the rule acts.
_HARMLESS = frozenset({"name", "position"})


def create_routing_rule(firm_id: int, *, by: Actor = SERVICE, **settings: Any) -> RoutingRule:
    """Store a new rule; it applies to mail that comes from now on.

    Raises:
        RoutingInvalid: a setting cannot be used; `errors` says which and why.
    """
    with firm_scope(firm_id):
        checked = _checked({**DEFAULTS, **settings})
        rule = RoutingRule(firm_id=firm_id, enabled_by_id=by.user_id, **checked)
        save_named(rule, RoutingInvalid, "rule")
        audit("routing_rule.create", rule, by, after=_settings(rule))
    return rule


@on_locked_row
def change_routing_rule(
    rule: RoutingRule, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any
) -> RoutingRule:
    """Change settings of a rule.

    Raises:
        RoutingInvalid: a setting cannot be used; `errors` says which and why.
    """
    before = _settings(rule)
    checked = _checked({**before, **settings})
    was, now = set_changed(rule, before, checked)
    if now.keys() - _HARMLESS:
        rule.enabled_by_id = by.user_id
    if rule.enabled:
        rule.disabled_reason = ""
    save_named(rule, RoutingInvalid, "rule")
    audit("routing_rule.change", rule, by, reason, before=was, after=now)
    return rule


@on_locked_row
def delete_routing_rule(rule: RoutingRule, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete a rule; messages that it has routed stay where they are."""
    audit("routing_rule.delete", rule, by, reason, before=_settings(rule))
    rule.delete()


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    faults: list[dict[str, str]] = []
    match: dict[str, Any] = {}
    name, profile = str(settings.get("name") or "").strip(), settings["profile"].strip()
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        faults.append(fault("name", f"must have 1 to {MAX_NAME_LENGTH} characters"))
    if not 0 <= settings["position"] <= MAX_PRIORITY:
        faults.append(fault("position", f"must be from 0 to {MAX_PRIORITY}"))
    if settings["route"] not in Route.values:
        faults.append(fault("route", f"must be one of {', '.join(Route.values)}"))
    elif (settings["route"] == Route.AGENT) != bool(profile) or len(profile) > MAX_PROFILE_LENGTH:
        faults.append(fault("profile", "must name the agent's profile, and is for agents only"))
    account_id: UUID | None = settings["account_id"]
    if account_id is not None and not MailAccount.objects.filter(pk=account_id).exists():
        faults.append(fault("account_id", "is no mailbox of this firm"))
    try:
        match = parse_match(settings.get("match")).model_dump(mode="json", exclude_none=True)
    except RoutingInvalid as error:
        faults.extend(error.errors)
    if faults:
        raise RoutingInvalid(faults)
    return {**settings, "name": name, "profile": profile, "match": match}


def _settings(rule: RoutingRule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in SETTINGS}
