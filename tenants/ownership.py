"""What a firm owns: the tables, in the order in which their rows can be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from django.apps import apps
from django.db import connection, models

from tenants.errors import DeletionRefused
from tenants.models import AuditEntry, FirmOwned
from tenants.scope import all_firms, sees_all_firms


@dataclass(frozen=True)
class OwnedTable:
    """A table with a column `firm_id`.

    `loose` are its columns that may be null and refer to a table whose rows are deleted before its
    own: they are set to null first.
    """

    table: str
    key: str
    loose: tuple[str, ...]


@cache
def owned_tables() -> list[OwnedTable]:
    """Return the tables that a firm owns, each one before the tables that it refers to.

    The audit log is not among them: it outlives the firm.
    """
    owned = [
        model
        for model in apps.get_models()
        if issubclass(model, FirmOwned) and model is not AuditEntry and model._meta.managed
    ]
    order = {model: place for place, model in enumerate(_deletion_order(owned))}
    return [
        OwnedTable(
            model._meta.db_table,
            str(model._meta.pk.column),
            tuple(
                field.column
                for field in _references(model)
                if field.null and order[field.related_model] <= order[model]
            ),
        )
        for model in sorted(owned, key=order.__getitem__)
    ]


def _deletion_order(owned: Iterable[type[models.Model]]) -> list[type[models.Model]]:
    """Return the models, each one before the models that it refers to.

    Nullable references count if they are deleted in cascade, because such a row may make no sense
    without the other; but not one that would close a circle.
    """
    before: dict[type[models.Model], set[type[models.Model]]] = {model: set() for model in owned}
    nullable = []
    for model in owned:
        for field in _references(model):
            if field.related_model is model:
                continue
            if not field.null:
                before[field.related_model].add(model)
            elif field.remote_field.on_delete is models.CASCADE:
                nullable.append((field.related_model, model))
    for target, model in nullable:
        more = {**before, target: before[target] | {model}}
        with suppress(CycleError):
            TopologicalSorter(more).prepare()
            before = more
    # A sorter yields predecessors first: here, the tables that refer to this one.
    return list(TopologicalSorter(before).static_order())


def _references(model: type[models.Model]) -> list[Any]:
    """Return the foreign keys that the database checks, to what a firm owns."""
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, models.ForeignKey)
        and getattr(field, "db_constraint", True)
        and issubclass(field.related_model, FirmOwned)
    ]


def clear_loose(table: OwnedTable, firm_id: int, most: int) -> int:
    """Set the loose columns of up to `most` of a firm's rows to null; return how many it were."""
    name, key = connection.ops.quote_name(table.table), connection.ops.quote_name(table.key)
    for column in map(connection.ops.quote_name, table.loose):
        chunk = f"SELECT {key} FROM {name} WHERE firm_id = %s AND {column} IS NOT NULL LIMIT {most}"  # noqa: S608 - names of models
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {name} SET {column} = NULL WHERE {key} IN ({chunk})", [firm_id])  # noqa: S608
            if cursor.rowcount:
                return int(cursor.rowcount)
    return 0


def delete_rows(table: OwnedTable, firm_id: int, most: int) -> int:
    """Delete up to `most` of a firm's rows, which must be in scope; return how many."""
    name, key = connection.ops.quote_name(table.table), connection.ops.quote_name(table.key)
    chunk = f"SELECT {key} FROM {name} WHERE firm_id = %s LIMIT {most}"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {name} WHERE {key} IN ({chunk})", [firm_id])  # noqa: S608
        return int(cursor.rowcount)


def refuse_deletion(instance: models.Model, **_: Any) -> None:
    """Refuse to delete a firm unless every firm is in scope: Django would miss rows out of scope.

    Raises:
        DeletionRefused: not every firm is in scope.
    """
    if not sees_all_firms():
        raise DeletionRefused(f"firm {instance}")


def take_rows_along(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    """Delete, or set to null, the references of firms' rows to a user who is being deleted.

    Django itself finds only the rows in scope; references from other rows would make the database
    refuse the deletion.
    """
    if sees_all_firms():
        return
    with all_firms("a user is deleted, of whichever firms"):
        for relation in sender._meta.related_objects:
            owner = relation.related_model
            constrained = getattr(relation.field, "db_constraint", False)
            if not issubclass(owner, FirmOwned) or not constrained:
                continue
            rows = owner._base_manager.filter(**{relation.field.name: instance.pk})
            if relation.on_delete is models.CASCADE:
                rows.delete()
            elif relation.on_delete is models.SET_NULL:
                rows.update(**{relation.field.name: None})
