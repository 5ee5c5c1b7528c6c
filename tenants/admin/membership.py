"""Memberships in the admin."""

from __future__ import annotations

from django.contrib import admin

from tenants.admin.base import TenantAdmin
from tenants.admin.filters import RoleFilter
from tenants.models import Membership
from tenants.users import sign_in_field


@admin.register(Membership)
class MembershipAdmin(TenantAdmin):
    """Who belongs to the firms in scope."""

    list_display = ("user", "firm", "role", "created_at")
    list_filter = (RoleFilter,)
    list_select_related = ("user", "firm")
    search_fields = (f"user__{sign_in_field()}",)
    search_help_text = "The user's sign-in name"
    ordering = ("firm", "role", "id")
    fields = ("user", "firm", "role", "created_at")
