"""The time by which the pages of the admin tell ages: the database's."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime

from jobs.engine.clock import database_now
from tenants.scope import Scope, current_scope

# The last time that was read, and the scope it was read in.
_read: ContextVar[tuple[Scope, datetime] | None] = ContextVar("page_time", default=None)


def page_time() -> datetime:
    """Return the database's time; a scope, such as that of a request, reads it once.

    A request has one scope in all its steps. Under ASGI, Django's signals cannot mark its beginning
    in a context variable, since each of their receivers runs in a copy of the context.
    """
    scope, known = current_scope(), _read.get()
    if known is not None and known[0] is scope:
        return known[1]
    now = database_now()
    _read.set(None if scope is None else (scope, now))
    return now
