"""What people do with agents' profiles: make, change, delete."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from mail.errors import ProfileInvalid
from mail.models import MAX_ADDRESS_LENGTH, AgentProfile, Preprocessor
from mail.models.agent import MAX_INSTRUCTIONS_LENGTH
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.agents.tools import TOOLS
from mail.services.operation import audit, on_locked_row, save_named, set_changed
from mail.services.rules.scopes import fault
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

MAX_TOKENS = 32_000
MAX_ITERATIONS = 50
MAX_RECIPIENTS = 100
MAX_MODEL_LENGTH = 100
DEFAULTS: dict[str, Any] = {
    "model": "",
    "max_tokens": 4096,
    "max_iterations": 10,
    "tools": [],
    "recipients": [],
    "preprocessor": Preprocessor.PLAIN.value,
    "enabled": True,
}
SETTINGS = ("name", "instructions", *DEFAULTS)


def create_profile(firm_id: int, *, by: Actor = SERVICE, **settings: Any) -> AgentProfile:
    """Store a new profile.

    Raises:
        ProfileInvalid: a setting cannot be used; `errors` says which and why.
    """
    with firm_scope(firm_id):
        profile = AgentProfile(firm_id=firm_id, **_checked({**DEFAULTS, **settings}))
        save_named(profile, ProfileInvalid, "profile")
        audit("agent_profile.create", profile, by, after=_settings(profile))
    return profile


@on_locked_row
def change_profile(
    profile: AgentProfile, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any
) -> AgentProfile:
    """Change settings; runs under way use the new ones from their next step.

    Raises:
        ProfileInvalid: a setting cannot be used; `errors` says which and why.
    """
    before = _settings(profile)
    checked = _checked({**before, **settings})
    was, now = set_changed(profile, before, checked)
    profile.changed_at = timezone.now()
    save_named(profile, ProfileInvalid, "profile")
    audit("agent_profile.change", profile, by, reason, before=was, after=now)
    return profile


@on_locked_row
def delete_profile(profile: AgentProfile, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete a profile; its runs stay. Messages that routing rules still hand to it become dead letters."""
    audit("agent_profile.delete", profile, by, reason, before=_settings(profile))
    profile.delete()


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    name = str(settings.get("name") or "").strip()
    instructions = str(settings.get("instructions") or "").strip()
    model = str(settings["model"]).strip()
    faults: list[dict[str, str]] = []
    if not 0 < len(name) <= MAX_PROFILE_LENGTH:
        faults.append(fault("name", f"must have 1 to {MAX_PROFILE_LENGTH} characters"))
    if not 0 < len(instructions) <= MAX_INSTRUCTIONS_LENGTH:
        text = f"must have 1 to {MAX_INSTRUCTIONS_LENGTH} characters"
        faults.append(fault("instructions", text))
    if len(model) > MAX_MODEL_LENGTH:
        faults.append(fault("model", f"must have at most {MAX_MODEL_LENGTH} characters"))
    for field, most in (("max_tokens", MAX_TOKENS), ("max_iterations", MAX_ITERATIONS)):
        if not 0 < settings[field] <= most:
            faults.append(fault(field, f"must be from 1 to {most}"))
    if settings["preprocessor"] not in Preprocessor.values:
        text = f"must be one of {', '.join(Preprocessor.values)}"
        faults.append(fault("preprocessor", text))
    tools = list(dict.fromkeys(settings["tools"]))
    unknown = [tool for tool in tools if tool not in TOOLS]
    if unknown:
        faults.append(fault("tools", f"has {unknown[0]!r}; there are {', '.join(TOOLS)}"))
    recipients = list(dict.fromkeys(one.strip().lower() for one in settings["recipients"]))
    wrong = [one for one in recipients if not _is_recipient(one)]
    if wrong or len(recipients) > MAX_RECIPIENTS:
        text = f"must be at most {MAX_RECIPIENTS} addresses, or *@ and a domain each"
        faults.append(fault("recipients", text))
    if faults:
        raise ProfileInvalid(faults)
    return {
        **settings,
        "name": name,
        "instructions": instructions,
        "model": model,
        "tools": tools,
        "recipients": recipients,
    }


def _is_recipient(text: str) -> bool:
    local, _, domain = text.partition("@")
    odd = any(one.isspace() or one in ",;<>@" or not one.isprintable() for one in local + domain)
    whole = local == "*" or "*" not in local
    return bool(local and "." in domain and "*" not in domain and whole) and not (
        odd or len(text) > MAX_ADDRESS_LENGTH
    )


def _settings(profile: AgentProfile) -> dict[str, Any]:
    return {name: getattr(profile, name) for name in SETTINGS}
