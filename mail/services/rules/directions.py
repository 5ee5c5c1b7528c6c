"""What people do with directions and rules for the model: make, change, delete."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from mail.errors import RuleInvalid
from mail.models import MAX_DIRECTION_LENGTH, Direction, DirectionKind, Scope
from mail.services.operation import audit, on_locked_row
from mail.services.rules.scopes import fault, scope_faults
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

DEFAULTS: dict[str, Any] = {
    "account_id": None,
    "kind": DirectionKind.DIRECTION,
    "scope": Scope.GLOBAL,
    "scope_ref": "",
    "enabled": True,
}
SETTINGS = ("text", *DEFAULTS)


def create_direction(firm_id: int, *, by: Actor = SERVICE, **settings: Any) -> Direction:
    """Store a new direction, or rule for the model.

    Raises:
        RuleInvalid: a setting cannot be used.
    """
    with firm_scope(firm_id):
        checked = _checked({**DEFAULTS, **settings})
        direction = Direction(firm_id=firm_id, enabled_by_id=by.user_id, **checked)
        direction.save()
        audit("direction.create", direction, by, after=_settings(direction))
    return direction


@on_locked_row
def change_direction(
    direction: Direction, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any
) -> Direction:
    """Change settings; the next message is judged with them.

    Raises:
        RuleInvalid: a setting cannot be used.
    """
    before = _settings(direction)
    for name, value in _checked({**before, **settings}).items():
        setattr(direction, name, value)
    direction.enabled_by_id = by.user_id
    direction.changed_at = timezone.now()
    direction.save()
    audit("direction.change", direction, by, reason, before=before, after=_settings(direction))
    return direction


@on_locked_row
def delete_direction(direction: Direction, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete a direction."""
    audit("direction.delete", direction, by, reason, before=_settings(direction))
    direction.delete()


def _settings(direction: Direction) -> dict[str, Any]:
    return {name: getattr(direction, name) for name in SETTINGS}


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    text = " ".join(str(settings.get("text", "")).split())
    faults = scope_faults(settings)
    if not text or len(text) > MAX_DIRECTION_LENGTH:
        faults.append(fault("text", f"must have 1 to {MAX_DIRECTION_LENGTH} characters"))
    if settings["kind"] not in DirectionKind.values:
        faults.append(fault("kind", f"must be one of {', '.join(DirectionKind.values)}"))
    if faults:
        raise RuleInvalid(faults)
    return {**settings, "text": text, "scope_ref": settings["scope_ref"].strip().lower()}
