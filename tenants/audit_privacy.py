"""Entries of the audit log whose values not every admin may read; apps register theirs here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

from tenants.models import AuditEntry

# Receives entries and the reader's id; returns the ids of those whose values are not for them.
PrivateEntries = Callable[[Sequence[AuditEntry], Any], Collection[UUID]]

_registered: list[PrivateEntries] = []


def register_private_entries(find: PrivateEntries) -> None:
    """Let `find` say which entries' `before` and `after` a reader may not see."""
    if find not in _registered:
        _registered.append(find)


def hide_private_values(entries: Sequence[AuditEntry], user_id: Any) -> None:
    """Make `before` and `after` None in the entries whose values are not for the reader.

    Must run in the reader's scope. The entries are not stored again.
    """
    private = {pk for find in _registered for pk in find(entries, user_id)}
    for entry in entries:
        if entry.pk in private:
            entry.before = entry.after = None
