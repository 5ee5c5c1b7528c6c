"""The base of the queue's firm-owned tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.db import models

from tenants.models import TenantModel

# Options of a foreign key in a table that workers write all the time: a constraint would lock the
# row it refers to with each write.
UNCONSTRAINED: dict[str, Any] = {
    "on_delete": models.DO_NOTHING,
    "db_constraint": False,
    "db_index": False,
}


def choices(words: type[StrEnum]) -> list[tuple[str, str]]:
    """Return a field's choices, each with its own value as label."""
    return [(word.value, word.value) for word in words]


class QueueModel(TenantModel):
    """A firm-owned row without a database constraint on the firm."""

    firm = models.ForeignKey("tenants.Firm", related_name="+", **UNCONSTRAINED)

    class Meta:
        abstract = True
