"""API keys in the admin: to read, and to revoke. Neither secret nor hash is shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, OperationRefused
from tenants.admin.base import RoleFilter, TenantOperationsAdmin
from tenants.api import keys
from tenants.audit import Actor
from tenants.models import ApiKey, Role
from tenants.users import sign_in_field

STATE_LABELS = {"valid": "success", "expired": "warning", "revoked": "default"}
REVOKED_ALREADY = "This key has already been revoked."


def _state(key: Any) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.is_expired else "valid"


def _revoke(key: ApiKey, *, reason: str, by: Actor) -> None:
    if not keys.revoke(key.prefix, by=by, reason=reason):
        raise OperationRefused(REVOKED_ALREADY)


@admin.register(ApiKey)
class ApiKeyAdmin(TenantOperationsAdmin):
    """The keys to the firms in scope."""

    empty_text = "manage.py create_api_key EMAIL --firm FIRM --role ROLE makes one."
    operations = (
        Operation(
            name="revoke",
            label="Revoke",
            icon="key_off",
            variant="danger",
            role=Role.ADMIN,
            effect="Requests with this key are refused from now on. A revoked key cannot be made "
            "valid again.",
            obstacle=lambda key: REVOKED_ALREADY if key.revoked_at else "",
            perform=_revoke,
            report=lambda key: f"Revoked {key.prefix}.",
        ),
    )
    list_display = ("prefix", "user", "firm", "role", "state", "expires_at", "last_used_at")
    list_filter = (RoleFilter,)
    list_select_related = ("user", "firm")
    search_fields = ("prefix__exact", f"user__{sign_in_field()}")
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
    state = column("State", _state, label=STATE_LABELS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        """Add whether each key is expired by the database's clock, which refuses it."""
        rows: QuerySet[ApiKey] = super().get_queryset(request)
        return rows.annotate(is_expired=Q(expires_at__lte=Now()))
