"""Whether the schema is whole: the indexes of the models, and row level security."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from django.apps import apps
from django.db import connection
from django.db.models import Index, Model, UniqueConstraint
from django.utils.text import capfirst

from jobs.models import JobQueue
from jobs.queries.doctor.base import Finding, Severity, fetch
from tenants.rls import rls_faults

WHY_MISSING = "Without this index, queries read the whole table, or nothing keeps a key unique."
WHY_INVALID = "An index whose build did not finish is written to but never read."
WHY_EXTRA = (
    "Every settled job pays for each index of this table; if an index names a column that a claim "
    "changes, every claim pays, too."
)

OF_POSTGRESQL = """
SELECT t.relname, c.relname, i.indisvalid AND i.indisready, i.indisprimary
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
WHERE t.relnamespace = current_schema()::regnamespace
"""

WHY_ROW_SECURITY = (
    "Without row level security, one mistake in a query shows a firm's rows to another."
)

UNIQUE_OF_SQLITE = re.compile(r'CONSTRAINT "([^"]+)" UNIQUE')


def check_indexes() -> Iterator[Finding]:
    """Compare the indexes of the database with those of the models."""
    models = apps.get_models()
    found = _of_postgresql() if connection.vendor == "postgresql" else _of_sqlite()
    faults = [
        *(fault for model in models for fault in _missing(model, found)),
        *_invalid(found),
        *_extra(found),
    ]
    yield from faults
    if not faults:
        what = f"Every index of {len(models)} tables exists and is valid."
        yield Finding("indexes", Severity.OK, what, WHY_MISSING)


# By table: the names of its indexes, and whether each is usable.
Found = Mapping[str, Mapping[str, bool]]


def _of_postgresql() -> Found:
    found: dict[str, dict[str, bool]] = {}
    for table, name, usable, primary in fetch(OF_POSTGRESQL):
        if not primary:
            found.setdefault(table, {})[name] = usable
    return found


def _of_sqlite() -> Found:
    found: dict[str, dict[str, bool]] = {}
    for table, name, sql in fetch("SELECT tbl_name, name, sql FROM sqlite_master"):
        # A constraint's own index has no SQL; its name is in the SQL of the table.
        names = UNIQUE_OF_SQLITE.findall(sql) if name == table else [name] if sql else []
        found.setdefault(table, {}).update(dict.fromkeys(names, True))
    return found


def _declared(model: type[Model]) -> Iterator[Index | UniqueConstraint]:
    yield from model._meta.indexes
    for constraint in model._meta.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield constraint


def _missing(model: type[Model], found: Found) -> Iterator[Finding]:
    there = found.get(model._meta.db_table, {})
    for declared in _declared(model):
        if declared.name not in there:
            what = f"Index {declared.name} of {model._meta.db_table} is missing."
            mend = f"{_create_sql(model, declared)};"
            yield Finding("indexes.missing", Severity.PROBLEM, what, WHY_MISSING, mend)


def _create_sql(model: type[Model], declared: Index | UniqueConstraint) -> str:
    # Not entered as a context: the editor only renders SQL.
    editor = connection.schema_editor(collect_sql=True)
    if isinstance(declared, Index) and connection.vendor == "postgresql":
        return str(declared.create_sql(model, editor, concurrently=True))
    return str(declared.create_sql(model, editor))


def _invalid(found: Found) -> Iterator[Finding]:
    for table, names in sorted(found.items()):
        for name, usable in sorted(names.items()):
            if not usable:
                what = f"Index {name} of {table} is invalid."
                mend = f"REINDEX INDEX CONCURRENTLY {connection.ops.quote_name(name)};"
                yield Finding("indexes.invalid", Severity.PROBLEM, what, WHY_INVALID, mend)


def _extra(found: Found) -> Iterator[Finding]:
    table = JobQueue._meta.db_table
    known = {declared.name for declared in _declared(JobQueue)}
    for name in sorted(set(found.get(table, ())) - known):
        what = f"Index {name} of {table} does not belong to the queue."
        how = " CONCURRENTLY" if connection.vendor == "postgresql" else ""
        mend = f"DROP INDEX{how} {connection.ops.quote_name(name)};"
        yield Finding("indexes.extra", Severity.NOTICE, what, WHY_EXTRA, mend)


def check_row_security() -> Iterator[Finding]:
    """Report every fault of row level security."""
    found = list(rls_faults())
    for fault, fix in found:
        what = f"{capfirst(fault)}."
        yield Finding("wall.hole", Severity.PROBLEM, what, WHY_ROW_SECURITY, fix)
    if not found:
        what = "Row level security is forced on every table that a firm owns."
        yield Finding("wall", Severity.OK, what, WHY_ROW_SECURITY)
