"""Keeps a forked process off its parent's database connections."""

from __future__ import annotations

import os

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

# Whoever closed one, or let it be collected, would say goodbye in the parent's name.
_inherited: list[BaseDatabaseWrapper] = []


def watch_forks() -> None:
    """From now on, let every forked child connect anew."""
    os.register_at_fork(after_in_child=_leave_to_parent)


def _leave_to_parent() -> None:
    for connection in connections.all(initialized_only=True):
        _inherited.append(connection)
        del connections[connection.alias]
