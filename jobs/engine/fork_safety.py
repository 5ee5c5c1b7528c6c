"""Keeps a forked process from using its parent's database connections."""

from __future__ import annotations

import os

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

# Kept: closing or collecting one would end the parent's session.
_inherited: list[BaseDatabaseWrapper] = []


def watch_forks() -> None:
    """From now on, let every forked child open its own connections."""
    os.register_at_fork(after_in_child=_leave_to_parent)


def _leave_to_parent() -> None:
    for connection in connections.all(initialized_only=True):
        _inherited.append(connection)
        del connections[connection.alias]
