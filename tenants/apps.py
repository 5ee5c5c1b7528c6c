"""The configuration of the app `tenants`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

# The other packages of this distribution.
SIBLINGS = ("interfaces", "jobs")


def refuse_shadows() -> None:
    """Refuse to start if a folder of the project is imported in place of one of the packages.

    Raises:
        ImproperlyConfigured: naming the folder.
    """
    home = Path(__file__).resolve().parent.parent
    for name in SIBLINGS:
        spec = find_spec(name)
        places = [] if spec is None else spec.submodule_search_locations or [str(spec.origin)]
        for place in places:
            if Path(place).resolve().parent != home:
                raise ImproperlyConfigured(
                    f"{place} hides the queue's package {name!r} in {home}: rename it, or move it "
                    "into a package of the project"
                )


# Called on import of this module, because an import from a hidden package would fail with a less
# clear error.
refuse_shadows()


class TenantsConfig(AppConfig):
    """Firms, memberships and tenant scope."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the signals for deleting firms and users, and for the project's companies."""
        from django.contrib.auth import get_user_model
        from django.db.models.signals import pre_delete

        from tenants.companies import keep_firms
        from tenants.models import Firm
        from tenants.ownership import refuse_deletion, take_rows_along

        pre_delete.connect(refuse_deletion, sender=Firm)
        pre_delete.connect(take_rows_along, sender=get_user_model())
        keep_firms()


@register(Tags.security, deploy=True)
def check_row_level_security(**_: Any) -> list[CheckMessage]:
    """Report every fault of row level security as an error."""
    from tenants.rls import rls_faults

    try:
        return [Error(fault, id="tenants.E001") for fault, _ in rls_faults()]
    except DatabaseError as error:
        text = f"whether row level security is on could not be checked: {type(error).__name__}"
        return [Error(text, id="tenants.E002")]
