"""A pipeline of psycopg: statements are sent one after the other, without waiting for results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, connection


@contextmanager
def pipeline() -> Iterator[None]:
    """Open a pipeline on the connection.

    The exception of a signal, such as KeyboardInterrupt, leaves it as itself: psycopg raises an
    error of its own in its place when it comes while the pipeline ends. The connection, of which
    results are still to be read, is closed then.
    """
    handled = sys.exception()
    try:
        with connection.wrap_database_errors, connection.connection.pipeline():
            yield
    except DatabaseError as error:
        interrupt = _interrupt_behind(error, handled)
        if interrupt is None:
            raise
        connection.close()
        raise interrupt from None


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return what `error` hides; what was handled before the pipeline is none of it."""
    cause = error.__context__
    while cause is not None and cause is not handled:
        if not isinstance(cause, Exception):
            return cause
        cause = cause.__context__
    return None
