"""Spells arrays as PostgreSQL reads them in binary: a column of a thousand values in one go.

An array of psycopg's own costs about a microsecond for each value. The form is that of the server's
`array_recv`: dimensions, a flag for nulls, the element's type, the length and start of the one
dimension; then each value behind its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from struct import pack
from typing import Any
from uuid import UUID

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from jobs.engine.dialects.base import Column

# The server counts microseconds from here.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NULL = pack("!i", -1)
ID_LENGTH = pack("!i", 16)
MAY_HOLD_NULLS = 1

# The type of each column in the catalog, which is the same in every database.
OIDS = {
    Column.BOOLEAN: 16,
    Column.BIGINT: 20,
    Column.INTEGER: 23,
    Column.TEXT: 25,
    Column.FLOAT: 701,
    Column.TIME: 1184,
    Column.UUID: 2950,
}
# Values of one size: how struct spells one, and how many bytes it takes.
FIXED = {
    Column.BOOLEAN: ("?", 1),
    Column.BIGINT: ("q", 8),
    Column.INTEGER: ("i", 4),
    Column.FLOAT: ("d", 8),
    Column.TIME: ("q", 8),
}


class Packed(bytes):
    """An array in the server's own form, for a parameter whose type the statement names."""


class _PackedDumper(Dumper):
    """Hands it over as it is; the statement's cast says what it is."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Any) -> Buffer | None:
        """Return the bytes."""
        return bytes(obj)


psycopg.adapters.register_dumper(Packed, _PackedDumper)


def packed(column: Column, values: Sequence[Any]) -> Packed:
    """Return a one-dimensional array of `values`, of which any may be None.

    Raises:
        UnicodeEncodeError: a text is none.
        struct.error: a number does not fit the column.
    """
    if not values:
        return Packed(pack("!iii", 0, 0, OIDS[column]))
    head = pack("!iiiii", 1, MAY_HOLD_NULLS, OIDS[column], len(values), 1)
    return Packed(head + _body(column, values))


def _body(column: Column, values: Sequence[Any]) -> bytes:
    if column is Column.TIME:
        values = [None if value is None else (value - EPOCH) // MICROSECOND for value in values]
    if column in FIXED:
        return _numbers(*FIXED[column], values)
    spell = _id if column is Column.UUID else _text
    return b"".join([NULL if value is None else spell(value) for value in values])


def _numbers(code: str, size: int, values: Sequence[Any]) -> bytes:
    if None not in values:
        # Length and value by turns, all in one call.
        mixed = chain.from_iterable(zip(repeat(size), values, strict=False))
        return pack("!" + ("i" + code) * len(values), *mixed)
    form = f"!i{code}"
    return b"".join([NULL if value is None else pack(form, size, value) for value in values])


def _id(value: UUID) -> bytes:
    return ID_LENGTH + value.bytes


def _text(value: str) -> bytes:
    data = value.encode()
    return pack("!i", len(data)) + data
