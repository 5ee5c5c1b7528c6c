"""What `manage.py check --deploy` says about the wall between firms."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from tenants.rls import holes


@register(Tags.security, deploy=True)
def check_second_wall(**_: Any) -> list[CheckMessage]:
    """Report every hole in row level security as an error."""
    try:
        return [Error(str(hole), id="tenants.E001") for hole in holes()]
    except DatabaseError as error:
        text = f"row level security could not be checked: {type(error).__name__}"
        return [Error(text, id="tenants.E002")]
