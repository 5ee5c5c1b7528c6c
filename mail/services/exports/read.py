"""Imports a firm from the zip of an export."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import CASCADE, BigIntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from mail.errors import FaultyInput, WrongState
from mail.models import RequestKind
from mail.services.exports.archive import ExportArchive, faulty, open_export
from mail.services.exports.tables import (
    FIRM_FACTS,
    FORMAT,
    VERSION,
    columns_of,
    exported_models,
    row_from_json,
    user_columns_of,
    value_from_json,
)
from tenants.audit import Actor, record_operation
from tenants.models import Firm, FirmOwned
from tenants.scope import all_firms

ROWS_AT_ONCE = 200


@dataclass
class Imported:
    """The imported firm, the number of its rows, and how many lacked a row that they belong to."""

    firm: Firm
    rows: int = 0
    left_out: int = 0


def import_firm(file: Path | IO[bytes], *, by: Actor, slug: str = "") -> Imported:
    """Create a firm from an export.

    It is inactive: its jobs are over, and its mailboxes must be connected again.

    Raises:
        FaultyInput: the file is no export of a firm, or is damaged, or the slug is invalid.
        WrongState: a firm has the slug, or the rows are in this database already.
    """
    with open_export(file) as archive, all_firms("import a firm"):
        manifest = _checked_manifest(archive)
        made = Imported(_firm_of(manifest["firm"], slug))
        users = dict(_user(place, facts) for place, facts in archive.rows("users.jsonl"))
        for table, model in exported_models().items():
            _import_table(archive, manifest["rows"], table, model, users, made)
        made.left_out += (loose := _drop_loose(made.firm))
        made.rows -= loose
        after = {"rows": made.rows, "left_out": made.left_out}
        target = ("firm", made.firm.pk)
        record_operation(by, "firm.import", firm_id=made.firm.pk, target=target, after=after)
    return made


def _checked_manifest(archive: ExportArchive) -> dict[str, Any]:
    manifest = archive.manifest()
    if (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        raise faulty(f"is not of the format {FORMAT} {VERSION}")
    if manifest.get("kind") != RequestKind.FIRM_EXPORT:
        raise faulty("is not the export of a whole firm")
    for name in ("firm", "rows"):
        if not isinstance(manifest.get(name), dict):
            raise faulty(f"is no export: its manifest does not say {name}")
    owned = {model._meta.db_table for model in apps.get_models() if issubclass(model, FirmOwned)}
    unknown = sorted(archive.names - {f"tables/{table}.jsonl" for table in owned})
    if tables := [repr(name) for name in unknown if name.startswith("tables/")][:5]:
        raise faulty(f"has tables that this version of Mailroom does not know: {', '.join(tables)}")
    return manifest


def _firm_of(facts: dict[str, Any], slug: str) -> Firm:
    given = {name: facts[name] for name in FIRM_FACTS if name in facts}
    if slug:
        given["slug"] = _checked_slug(slug)
    try:
        for name, value in given.items():
            given[name] = value_from_json(Firm._meta.get_field(name), value)
        if Firm.objects.filter(slug=given.get("slug")).exists():
            raise WrongState(f"A firm has the slug {given['slug']} already: give another one")
        firm = Firm(**given, active=False)
        firm.full_clean()
    except ValidationError as error:
        raise faulty(f"has a firm that is not valid: {'; '.join(error.messages)}") from error
    except ValueError as error:
        raise faulty(f"has a firm that is not valid: {error}") from error
    firm.save(force_insert=True)
    return firm


def _checked_slug(slug: str) -> str:
    try:
        cleaned: str = Firm._meta.get_field("slug").clean(slug, None)
    except ValidationError as error:
        message = "; ".join(error.messages)
        raise FaultyInput([{"field": "slug", "code": "invalid", "message": message}]) from error
    return cleaned


def _user(place: str, facts: dict[str, Any]) -> tuple[str, Any]:
    """Return the user's key in the export, and here; an unknown user is made without a password."""
    model: Any = get_user_model()
    texts = {model.USERNAME_FIELD: facts.get("username")}
    for field in ("email", "first_name", "last_name"):
        if hasattr(model, field):
            texts[field] = facts.get(field, "")
    try:
        for name, text in texts.items():
            texts[name] = value_from_json(model._meta.get_field(name), text)
    except ValueError as error:
        raise faulty(f"is damaged: {place}: {error}") from error
    name = {model.USERNAME_FIELD: texts[model.USERNAME_FIELD]}
    if not all(name.values()) or not facts.get("id"):
        raise faulty(f"is damaged: {place} names no user")
    user = model._default_manager.filter(**name).first()
    if user is None:
        user = model(**texts)
        user.set_unusable_password()
        user.save()
    return str(facts["id"]), user.pk


def _import_table(
    archive: ExportArchive,
    counts: dict[str, Any],
    table: str,
    model: type[Any],
    users: dict[str, Any],
    made: Imported,
) -> None:
    """Store a table's rows.

    Raises:
        FaultyInput: the number of rows differs from the manifest's, or a row cannot be stored.
        WrongState: a row is in this database already.
    """
    file = f"tables/{table}.jsonl"
    read, all_rows = 0, _rows(archive, file, model, users, made.firm.pk)
    while some := list(islice(all_rows, ROWS_AT_ONCE)):
        read += len(some)
        # Without None, which stands for a row whose user was deleted while the export was made.
        kept = [row for row in some if row is not None]
        _store(model, kept, file)
        made.rows += len(kept)
        made.left_out += len(some) - len(kept)
    if read != counts.get(table, 0):
        raise faulty(f"is damaged: {file} has {read} rows, {counts.get(table, 0)} were exported")


def _rows(
    archive: ExportArchive, file: str, model: type[Any], users: dict[str, Any], firm_id: int
) -> Iterator[Any]:
    """Yield a table's rows, unsaved; None for a row that would have been deleted with its user."""
    for place, values in archive.rows(file):
        try:
            row = row_from_json(model, values, firm_id=firm_id, users=users)
        except KeyError as error:
            raise faulty(f"is damaged: {place}: {error.args[0]} is missing") from error
        except ValueError as error:
            raise faulty(f"is damaged: {place}: {error}") from error
        yield None if _went_with_user(row, values) else row


def _went_with_user(row: Any, values: dict[str, Any]) -> bool:
    """Say whether the row cannot be kept, because the export lacks a user that it belongs to."""
    for name in user_columns_of(type(row)):
        field = row._meta.get_field(name)
        named = values.get(name) is not None and field.remote_field.on_delete is CASCADE
        if getattr(row, name) is None and (named or not field.null):
            return True
    return False


def _store(model: type[Any], rows: list[Any], file: str) -> None:
    try:
        with transaction.atomic():
            model.objects.bulk_create(rows)
    except IntegrityError as error:
        if model.objects.filter(pk__in=[row.pk for row in rows]).exists():
            raise WrongState("Rows of this export are in this database already") from error
        raise faulty(f"is damaged: a row of {file} violates a constraint of its table") from error


def _drop_loose(firm: Firm) -> int:
    """Clear references to rows that the export lacks; return how many rows were deleted for them.

    Mail came and went while the export was made: a thread may name a message that is newer than its
    table's part, and an answer may name a message that was deleted before.
    """
    dropped = 0
    while True:
        more = sum(_dropped_of(model, firm) for model in exported_models().values())
        dropped += more
        if not more:
            return dropped


def _dropped_of(model: type[Any], firm: Firm) -> int:
    dropped = 0
    for field in columns_of(model):
        target = field.related_model
        if field.name == "firm" or target is None or not issubclass(target, FirmOwned):
            continue
        loose = _loose(model, field, firm)
        if field.null and field.remote_field.on_delete is not CASCADE:
            loose.update(**{field.attname: None})
        else:
            dropped += loose.delete()[0]
    return dropped


def _loose(model: type[Any], field: Any, firm: Firm) -> QuerySet[Any]:
    """Return the firm's rows whose reference leads to no row of the firm's."""
    # Looked up row by row, because there are no statistics of the new rows yet: PostgreSQL, which
    # would expect one row, would join every row with every other.
    owners = field.related_model.objects.filter(pk=OuterRef(field.attname)).values("firm_id")
    found = Coalesce(Subquery(owners, output_field=BigIntegerField()), 0)
    rows = model.objects.filter(firm_id=firm.pk, **{f"{field.attname}__isnull": False})
    loose: QuerySet[Any] = rows.alias(firm_found=found).exclude(firm_found=firm.pk)
    return loose
