"""Rows that people change: as they are stored, locked; or the word that they are gone."""

from __future__ import annotations

from typing import TypeVar

from mail.errors import RowGone
from tenants.models import FirmOwned

RowType = TypeVar("RowType", bound=FirmOwned)


def locked_row(row: RowType) -> RowType:
    """Return the row as it is stored, locked. Must run in the firm's scope.

    Raises:
        RowGone: somebody deleted it meanwhile.
    """
    # Not against rows that refer to it: who adds one may hold what the caller locks next.
    locked = type(row).objects.select_for_update(no_key=True)
    stored: RowType | None = locked.filter(pk=row.pk).first()
    if stored is None:
        raise RowGone(f"The {row._meta.verbose_name} is deleted.")
    return stored
