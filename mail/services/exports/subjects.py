"""Finds a person in the database: rows that mention an e-mail address in any text or JSON column."""

from __future__ import annotations

import json
import re
from typing import Any

from django.db.models import CharField, JSONField, Q, QuerySet, TextField
from django.db.models.functions import Cast

from mail.errors import FaultyInput
from mail.models import MAX_ADDRESS_LENGTH
from tenants.encryption import EncryptedTextField

# An address in a text begins and ends where no character beside it would make it another address. A
# dot, a hyphen or an apostrophe (d'anna@…) belongs to it only between two other characters.
BEFORE, _AFTER = r"(?<![\w+%])(?<!\w[.'-])", r"(?!\w|[.-]+\w)"
# Any sender may ask for their data, also zoë@…, first..last@…, root@intranet.
_ADDRESS = re.compile(r"[^\s\x00-\x1f\x7f,;<>@]+@[^\s\x00-\x1f\x7f,;<>@]+")
# What may stand for @ in links and HTML.
CODED_AT = ("%40", "&#64;", "&#x40;", "&commat;")


def checked_address(text: str) -> str:
    """Return an e-mail address in lower case.

    Raises:
        FaultyInput: the text is no e-mail address.
    """
    address = text.strip().lower()
    if not _ADDRESS.fullmatch(address) or len(address) > MAX_ADDRESS_LENGTH:
        fault = {"field": "subject", "code": "invalid", "message": "is not an e-mail address"}
        raise FaultyInput([fault])
    return address


def text_columns(model: type[Any]) -> list[Any]:
    """Return the model's text and JSON columns, without encrypted ones."""
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, CharField | TextField | JSONField)
        and not isinstance(field, EncryptedTextField)
        and not field.choices
    ]


def pattern_of(address: str) -> re.Pattern[str]:
    """Return the pattern that finds the address, but no longer one that contains it."""
    ats = "|".join(map(re.escape, ("@", *CODED_AT)))
    expression = _expression(address).replace("@", f"(?:{ats})")
    return re.compile(expression, re.IGNORECASE)


def mentioning(rows: QuerySet[Any], address: str) -> QuerySet[Any]:
    """Return the rows that mention the address in any of their columns."""
    # The JSON form, too, because SQLite stores characters other than ASCII escaped.
    forms = {address, json.dumps(address)[1:-1], *(address.replace("@", at) for at in CODED_AT)}
    names, condition = {}, Q()
    for field in text_columns(rows.model):
        name = f"text_of_{field.attname}"
        names[name] = Cast(field.attname, TextField())
        for form in forms:
            # The first condition is fast and true for few rows, so the second is seldom tried.
            condition |= Q(**{f"{name}__icontains": form}) & Q(
                **{f"{name}__iregex": _expression(form)}
            )
    return rows.alias(**names).filter(condition) if names else rows.none()


def _expression(address: str) -> str:
    return f"{BEFORE}{re.escape(address)}{_AFTER}"
