"""Lets a handler run inside a test's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TestCase

from jobs.errors import TransactionLeftOpen
from jobs.execution.connections import transaction_left_open


@contextmanager
def as_without_transaction() -> Iterator[None]:
    """Run a handler inside a test's transactions as it would run outside of them.

    On each database the handler's on-commit callbacks run after it has ended. If a statement of the
    handler fails, its writes are undone; if one of a callback fails, those of the callbacks. The
    test can continue in both cases. An atomic block that the handler left open is rolled back, too.
    """
    with ExitStack() as databases:
        for database in connections.all(initialized_only=True):
            if database.in_atomic_block:
                databases.enter_context(_as_without_transaction(database))
        yield


@contextmanager
def _as_without_transaction(connection: BaseDatabaseWrapper) -> Iterator[None]:
    using = connection.alias
    before: Any = connection.savepoint()
    pending = len(connection.run_on_commit)
    outer = len(connection.atomic_blocks)

    def undo_if_broken() -> None:
        if connection.needs_rollback or not connection.is_usable():
            transaction.set_rollback(rollback=False, using=using)
            connection.savepoint_rollback(before)
            del connection.run_on_commit[pending:]

    try:
        with TestCase.captureOnCommitCallbacks(using=using, execute=True):
            yield
            _end_atomic_blocks(connection, outer)
            undo_if_broken()
            # In a worker, the handler's writes up to here would have been committed.
            before = connection.savepoint()
    finally:
        undo_if_broken()


def _end_atomic_blocks(connection: BaseDatabaseWrapper, outer: int) -> None:
    """Roll back the atomic blocks that the handler left open inside the `outer` first ones.

    Raises:
        TransactionLeftOpen: there were such blocks.
    """
    left = connection.atomic_blocks[outer:]
    if not left:
        return
    error = transaction_left_open([connection])
    for block in reversed(left):
        block.__exit__(TransactionLeftOpen, error, None)
    raise error
