"""Reads a table of an older system in the order of its primary key, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connections

from jobs.errors import Fault, LegacyImportInvalid
from jobs.operations.legacy.shapes import TIMES, WIDE, Shape

CHUNK = 200
# Begins the role of a column that holds one field of the payload.
COLUMN = "column:"


@dataclass(frozen=True)
class LegacyTable:
    """A table and the columns of it that are read, by their roles."""

    database: str
    name: str
    key: str
    columns: Mapping[str, str]

    @classmethod
    def find(cls, database: str, name: str, shape: Shape, fields: Sequence[str]) -> LegacyTable:
        """Look a table up; `fields` are columns to be read beside those of the shape.

        Raises:
            LegacyImportInvalid: there is no such table, or it is not of this shape.
        """
        connection = connections[database]
        with connection.cursor() as cursor:
            tables = connection.introspection.table_names(cursor, include_views=True)
            if name not in tables:
                raise _invalid("table", "unknown", f"the database has no table {name!r}")
            described = connection.introspection.get_table_description(cursor, name)
            key = connection.introspection.get_primary_key_column(cursor, name)
        present = {column.name for column in described}
        if key is None:
            raise _invalid("table", "no_key", f"{name} has no single-column primary key")
        if _has_null(database, name, key):
            message = f"{name} has rows without {key}: give them one or delete them"
            raise _invalid("table", "no_key", message)
        columns = {
            role: found
            for role, names in shape.columns.items()
            if (found := next((one for one in names if one in present), ""))
        }
        if "status" not in columns:
            wanted = " or ".join(shape.columns["status"])
            raise _invalid("table", "wrong_shape", f"{name} has no column {wanted}")
        columns |= {COLUMN + field: field for field in fields if field in present}
        return cls(database, name, key, columns)

    def chunks(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows by role, with `key`; no more than a chunk is in memory."""
        rows = self._read(None)
        while rows:
            yield rows
            rows = self._read(rows[-1]["key"])

    def _read(self, after: Any) -> list[dict[str, Any]]:
        connection = connections[self.database]
        quote = connection.ops.quote_name
        parts = [quote(self.key)]
        for role, column in self.columns.items():
            parts.append(_column_sql(role, quote(column), connection.vendor))
        bound, params = ("", []) if after is None else _bound(after)
        where = f"WHERE {quote(self.key)} > {bound}" if bound else ""
        # Names of columns and table come from the database's own catalog, quoted.
        sql = (
            f"SELECT {', '.join(parts)} FROM {quote(self.name)} {where}"
            f" ORDER BY {quote(self.key)} LIMIT {CHUNK}"
        )
        with connection.cursor() as cursor, _reading_any_bytes(connection):
            cursor.execute(sql, params)
            names = ["key", *self.columns]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def has_rows(database: str, table: str) -> bool:
    """Say whether the database has this table, with rows in it."""
    connection = connections[database]
    with connection.cursor() as cursor:
        if table not in connection.introspection.table_names(cursor):
            return False
        cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(table)} LIMIT 1")
        return cursor.fetchone() is not None


def _has_null(database: str, table: str, key: str) -> bool:
    """Say whether rows have no key, as SQLite allows: such rows cannot be told apart."""
    connection = connections[database]
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {quote(table)} WHERE {quote(key)} IS NULL LIMIT 1")
        return cursor.fetchone() is not None


@contextmanager
def _reading_any_bytes(connection: Any) -> Iterator[None]:
    """Decode SQLite's text with surrogate escapes: one row that is not UTF-8 must not stop all."""
    if connection.vendor != "sqlite":
        yield
        return
    client = connection.connection
    before = client.text_factory
    client.text_factory = lambda data: data.decode(errors="surrogateescape")
    try:
        yield
    finally:
        client.text_factory = before


def _bound(key: Any) -> tuple[str, list[Any]]:
    """Return SQL for a key and its parameter: bytes if the key is text that is not UTF-8."""
    try:
        str(key).encode()
    except UnicodeEncodeError:
        return "CAST(%s AS text)", [key.encode(errors="surrogateescape")]
    return "%s", [key]


def _column_sql(role: str, column: str, vendor: str) -> str:
    """Cut a long column after one character more than is kept, which shows that it was longer.

    Times are read as text: no driver reads all that older systems store, such as `infinity`, or
    months and days 0.
    """
    if role in TIMES:
        # The form that no setting of the session changes.
        return (
            f"to_json({column}) #>> '{{}}'" if vendor == "postgresql" else f"CAST({column} AS text)"
        )
    most = WIDE.get(role)
    return column if most is None else f"SUBSTR(CAST({column} AS text), 1, {most + 1})"


def _invalid(field: str, code: str, message: str) -> LegacyImportInvalid:
    return LegacyImportInvalid([Fault(field, code, message)])
