"""Lets a handler run inside a test's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.test import TestCase

from jobs.errors import TransactionLeftOpen
from jobs.execution.connections import transaction_left_open


@contextmanager
def as_without_transaction() -> Iterator[None]:
    """Run a handler inside a test's transaction as it would run outside of one.

    Its on-commit callbacks run when it has ended. A statement of its own that fails undoes what it
    did, one of theirs what they did, and the test can go on. A block that it left open is undone, too.
    """
    if not connection.in_atomic_block:
        yield
        return
    before = transaction.savepoint()
    pending = len(connection.run_on_commit)
    outer = len(connection.atomic_blocks)

    def undo_if_broken() -> None:
        if connection.needs_rollback or not connection.is_usable():
            transaction.set_rollback(False)
            transaction.savepoint_rollback(before)
            del connection.run_on_commit[pending:]

    try:
        with TestCase.captureOnCommitCallbacks(execute=True):
            yield
            _end_atomic_blocks(outer)
            undo_if_broken()
            # What it did up to here a worker would have committed.
            before = transaction.savepoint()
    finally:
        undo_if_broken()


def _end_atomic_blocks(outer: int) -> None:
    """Roll back the atomic blocks that the handler left open inside the `outer` first ones.

    Raises:
        TransactionLeftOpen: there were some.
    """
    left = connection.atomic_blocks[outer:]
    if not left:
        return
    error = transaction_left_open([connection])
    for block in reversed(left):
        block.__exit__(TransactionLeftOpen, error, None)
    raise error
