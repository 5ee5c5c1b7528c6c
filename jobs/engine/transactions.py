"""Runs an engine verb in a transaction, again where the database asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import SystemRandom
from typing import Any, TypeVar

from django.db import DatabaseError, connection, transaction

from jobs.engine import dialects

T = TypeVar("T")

REPEATS = 6
FIRST_PAUSE_SECONDS = 0.02

_rng = SystemRandom()


def in_transaction(work: Callable[[], T]) -> T:
    """Return what `work` returns; repeat it after a deadlock or a busy database.

    Inside a caller's transaction it runs once and joins it: only the caller could repeat that.
    """
    if connection.in_atomic_block:
        return work()
    dialect = dialects.current()
    for repeat in range(REPEATS):
        try:
            with transaction.atomic():
                return work()
        except DatabaseError as error:
            if repeat == REPEATS - 1 or not dialect.is_transient(error):
                raise
        time.sleep(FIRST_PAUSE_SECONDS * 2**repeat * _rng.uniform(0.5, 1.5))
    raise AssertionError("unreachable: the last repeat returns or raises")


def fetch(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    """Run a statement that returns rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run(sql: str, params: list[Any]) -> int:
    """Run a statement and return how many rows it touched."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)
