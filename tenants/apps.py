"""Django's handle on the tenants app."""

from __future__ import annotations

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Firms, memberships and tenant scope."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"
