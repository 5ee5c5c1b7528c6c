"""API keys in the admin: who has one. What a key is made of is not shown."""

from __future__ import annotations

from django.contrib import admin

from tenants.admin.base import ReadOnlyAdmin
from tenants.models import ApiKey


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """The keys to the firms in scope."""

    list_display = ("prefix", "user", "firm", "role", "expires_at", "last_used_at", "revoked_at")
    list_filter = ("role",)
    list_select_related = ("user", "firm")
    search_fields = ("prefix__exact", "user__username")
    ordering = ("-id",)
    fields = (
        "prefix",
        "user",
        "firm",
        "role",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
