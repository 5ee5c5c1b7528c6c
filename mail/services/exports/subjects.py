"""Finds a person in the database: rows that mention an e-mail address in any text or JSON column."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import CharField, Func, JSONField, Q, QuerySet, TextField
from django.db.models.functions import Cast

from mail.errors import FaultyInput
from mail.models import MAX_ADDRESS_LENGTH
from mail.text.words import UNSPACED
from tenants.encryption import EncryptedTextField

# An address in a text begins and ends where no character beside it would make it another address. A
# dot, a hyphen or an apostrophe (d'anna@…) belongs to it only between two other characters.
_BEFORE, _AFTER = r"(?<![\w+%])(?<!\w[.'-])", r"(?!\w|[.-]+\w)"
# In texts without spaces between words, the words beside an address do not belong to it.
BEFORE = rf"(?:(?<={UNSPACED})(?!{UNSPACED})|{_BEFORE})"
AFTER = rf"(?:(?={UNSPACED})|{_AFTER})"
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
    return re.compile(_expression(address), re.IGNORECASE)


def mentioning(rows: QuerySet[Any], address: str) -> QuerySet[Any]:
    """Return the rows that mention the address in any of their columns."""
    pieces = {_plain_piece(address.replace("@", at)) for at in ("@", *CODED_AT)}
    expression = _expression(address)
    names: dict[str, Any] = {}
    condition = Q()
    for field in text_columns(rows.model):
        is_json = isinstance(field, JSONField)
        stored, said = f"stored_{field.attname}", f"said_{field.attname}"
        names[stored] = Cast(field.attname, TextField())
        names[said] = _TextsOfJSON(field.attname) if is_json else names[stored]
        for piece in pieces:
            # The first condition is fast and true for few rows, so the second is seldom tried.
            condition |= Q(**{f"{stored}__icontains": piece}) & Q(**{f"{said}__iregex": expression})
    return rows.alias(**names).filter(condition) if names else rows.none()


class _TextsOfJSON(Func):
    """The keys and texts of a JSON column, a line each.

    In the JSON itself a line break before an address is written by a letter, as in `\\nanna@…`.
    """

    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        """Return SQLite's form."""
        # A text would end for SQLite at a NUL, which JSON writes as an escape.
        template = (
            "(SELECT group_concat(coalesce(key, '') || char(10) || coalesce(atom, ''), char(10))"
            " FROM json_tree(replace(%(expressions)s, '\\u0000', ' ')))"
        )
        return self.as_sql(compiler, connection, template=template)

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        """Return PostgreSQL's form."""
        texts = """'strict $.** ? (@.type() == "string")'"""
        keys = """'strict $.** ? (@.type() == "object").keyvalue().key'"""
        template = (
            "(SELECT string_agg(part #>> '{}', chr(10)) FROM"
            " (SELECT jsonb_path_query(%(expressions)s, %(texts)s) UNION ALL"
            " SELECT jsonb_path_query(%(expressions)s, %(keys)s)) AS parts(part))"
        )
        return self.as_sql(compiler, connection, template=template, texts=texts, keys=keys)


def _plain_piece(form: str) -> str:
    """Return the longest piece that is written alike in texts and in JSON, whatever its case."""
    return max(re.split(r'[^ -~]+|["\\]', form), key=len)


def _expression(address: str) -> str:
    before = _BEFORE if re.match(UNSPACED, address) else BEFORE
    after = _AFTER if re.search(f"{UNSPACED}$", address) else AFTER
    return f"{before}{''.join(map(_any_case, address))}{after}"


def _any_case(character: str) -> str:
    """Return the pattern of a character of the address, which is in lower case."""
    if character == "@":
        return f"(?:{'|'.join(map(re.escape, ('@', *CODED_AT)))})"
    if character.isascii() or len(character.upper()) > 1:
        return re.escape(character)
    # Not every database knows that these are the same letter.
    return f"[{character}{character.upper()}]"
