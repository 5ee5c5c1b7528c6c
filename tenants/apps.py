"""Django's handle on the tenants app."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError


class TenantsConfig(AppConfig):
    """Firms, memberships and tenant scope."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Refuse to delete a firm or a user whose rows would stay behind."""
        from django.contrib.auth import get_user_model
        from django.db.models.signals import pre_delete

        from tenants.models import Firm
        from tenants.ownership import refuse_deletion

        for model in (Firm, get_user_model()):
            pre_delete.connect(refuse_deletion, sender=model)


@register(Tags.security, deploy=True)
def check_row_level_security(**_: Any) -> list[CheckMessage]:
    """Report every fault of row level security as an error."""
    from tenants.rls import rls_faults

    try:
        return [Error(fault, id="tenants.E001") for fault, _ in rls_faults()]
    except DatabaseError as error:
        text = f"row level security could not be checked: {type(error).__name__}"
        return [Error(text, id="tenants.E002")]
