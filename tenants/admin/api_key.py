"""API keys in the admin: who has one, and withdrawing it. What a key is made of is not shown."""

from __future__ import annotations

from django.contrib import admin
from django.utils import timezone
from unfold.decorators import display

from tenants.admin.acts import Act, ActingAdmin, ActRefused, Answers
from tenants.admin.filters import RoleFilter
from tenants.api import keys
from tenants.audit import Actor
from tenants.models import ApiKey, Role

STATE_LABELS = {"valid": "success", "expired": "warning", "revoked": "default"}


class RevokeKey(Act):
    """Withdraws a key."""

    name = "revoke"
    label = "Revoke"
    done = "revoked"
    icon = "key_off"
    variant = "danger"
    needed = Role.ADMIN

    def obstacle(self, row: ApiKey) -> str:
        """Allow once."""
        return "This key was revoked already." if row.revoked_at else ""

    def consequence(self, row: ApiKey | None) -> str:
        """Say that it is for good."""
        return "Whoever uses the key is refused from now on. It cannot be made valid again."

    def seen(self, row: ApiKey) -> str:
        """Rest on the key's being valid, which `obstacle` asks."""
        return ""

    def perform(self, row: ApiKey, answers: Answers, by: Actor) -> None:
        """Revoke the key."""
        if not keys.revoke(row.prefix, by=by, reason=answers["reason"]):
            raise ActRefused("This key was revoked already.")

    def told(self, row: ApiKey) -> str:
        """Say that it is withdrawn."""
        return f"Revoked {row.prefix}."


@admin.register(ApiKey)
class ApiKeyAdmin(ActingAdmin):
    """The keys to the firms in scope."""

    acts = (RevokeKey(),)
    list_display = ("prefix", "user", "firm", "role", "state", "expires_at", "last_used_at")
    list_filter = (RoleFilter,)
    list_select_related = ("user", "firm")
    search_fields = ("prefix__exact", "user__username")
    search_help_text = "Prefix or user"
    ordering = ("-id",)
    fields = (
        "prefix",
        "user",
        "firm",
        "role",
        "state",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    readonly_fields = ("state",)

    @display(description="State", label=STATE_LABELS)
    def state(self, key: ApiKey) -> str:
        """Say whether it is good for anything."""
        if key.revoked_at is not None:
            return "revoked"
        expired = key.expires_at is not None and key.expires_at <= timezone.now()
        return "expired" if expired else "valid"
