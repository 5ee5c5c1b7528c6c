"""Imports a firm from the zip of an export."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError

from mail.errors import FaultyInput, WrongState
from mail.models import RequestKind
from mail.services.exports.tables import FORMAT, VERSION, exported_models, row_from_json
from tenants.audit import Actor, record_operation
from tenants.models import Firm
from tenants.scope import all_firms

ROWS_AT_ONCE = 200


def import_firm(file: Path | IO[bytes], *, by: Actor, slug: str = "") -> tuple[Firm, int]:
    """Make a firm of an export; return it and the number of its rows.

    It is inactive: its jobs have ended, and its mailboxes must be connected again.

    Raises:
        FaultyInput: the file is no export of a firm.
        WrongState: a firm has the slug, or the rows are here already.
    """
    try:
        with zipfile.ZipFile(file) as archive, all_firms("import a firm"):
            return _import(archive, slug, by)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise _faulty(f"is no export: {type(error).__name__}") from error
    except IntegrityError as error:
        raise WrongState("Rows of this export are in this database already") from error


def _import(archive: zipfile.ZipFile, slug: str, by: Actor) -> tuple[Firm, int]:
    manifest = json.loads(archive.read("manifest.json"))
    if (manifest["format"], manifest["version"]) != (FORMAT, VERSION):
        raise _faulty(f"is not of the format {FORMAT} {VERSION}")
    if manifest["kind"] != RequestKind.FIRM_EXPORT:
        raise _faulty("is not the export of a whole firm")
    facts = {**manifest["firm"], "slug": slug or manifest["firm"]["slug"]}
    if Firm.objects.filter(slug=facts["slug"]).exists():
        raise WrongState(f"A firm has the slug {facts['slug']} already: give another one")
    firm = Firm.objects.create(**facts, active=False)
    users = {one["id"]: _user(one) for one in _lines(archive, "users.jsonl")}
    rows = 0
    for table, model in exported_models().items():
        lines = _lines(archive, f"tables/{table}.jsonl")
        made = (row_from_json(model, line, firm_id=firm.pk, users=users) for line in lines)
        while some := list(islice(made, ROWS_AT_ONCE)):
            rows += len(model.objects.bulk_create(some))
    record_operation(
        by, "firm.import", firm_id=firm.pk, target=("firm", firm.pk), after={"rows": rows}
    )
    return firm, rows


def _user(facts: dict[str, str]) -> Any:
    """Return the key of the user of this name, made without a password where there is none."""
    model: Any = get_user_model()
    name = {model.USERNAME_FIELD: facts["username"]}
    user = model._default_manager.filter(**name).first()
    if user is None:
        user = model(**name)
        for field in ("email", "first_name", "last_name"):
            if hasattr(user, field):
                setattr(user, field, facts[field])
        user.set_unusable_password()
        user.save()
    return user.pk


def _lines(archive: zipfile.ZipFile, name: str) -> Iterator[dict[str, Any]]:
    if name not in archive.namelist():
        return
    with archive.open(name) as lines:
        for line in lines:
            yield json.loads(line)


def _faulty(message: str) -> FaultyInput:
    return FaultyInput([{"field": "file", "code": "invalid", "message": message}])
