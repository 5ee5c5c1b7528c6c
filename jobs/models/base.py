"""The base of the queue's firm-owned tables, and columns of many ids."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import models

from tenants.models import TenantModel

# Options of a foreign key in a table that workers write all the time: a constraint would lock the
# row it refers to with each write.
UNCONSTRAINED: dict[str, Any] = {
    "on_delete": models.DO_NOTHING,
    "db_constraint": False,
    "db_index": False,
}
ID_BYTES = 16
# Lower than every other id: a walk through ids begins here.
FIRST_ID = UUID(int=0)


def choices(words: type[StrEnum]) -> list[tuple[str, str]]:
    """Return a field's choices, each with its own value as label."""
    return [(word.value, word.value) for word in words]


class QueueModel(TenantModel):
    """A firm-owned row without a database constraint on the firm."""

    firm = models.ForeignKey("tenants.Firm", related_name="+", **UNCONSTRAINED)

    class Meta:
        abstract = True


def id_at(moment: datetime) -> UUID:
    """Return the lowest UUIDv7 of that millisecond."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << 80)


def pack_ids(ids: Iterable[UUID]) -> bytes:
    """Return the ids as they are stored."""
    # As their `bytes`, in half the time.
    return b"".join([one.int.to_bytes(ID_BYTES) for one in ids])


def unpack_ids(stored: bytes | memoryview) -> list[UUID]:
    """Return the ids that are stored."""
    data = bytes(stored)
    return [
        UUID(bytes=data[start : start + ID_BYTES])
        for start in range(0, len(data) - ID_BYTES + 1, ID_BYTES)
    ]


class IdsField(models.BinaryField):  # type: ignore[type-arg]  # generic to the checker alone
    """A list of ids, as text."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"default": list, **options})

    def from_db_value(self, value: bytes | memoryview | None, *_: object) -> list[str]:
        """Return the stored ids as texts."""
        return [] if value is None else [str(one) for one in unpack_ids(value)]

    def get_prep_value(self, value: Any) -> bytes:
        """Return the ids, given as texts, as they are stored."""
        return pack_ids(UUID(str(one)) for one in value)

    def value_to_string(self, obj: models.Model) -> str:
        """Write it to a fixture."""
        return ",".join(self.value_from_object(obj))

    def to_python(self, value: Any) -> list[str]:
        """Read it from a fixture."""
        return [one for one in value.split(",") if one] if isinstance(value, str) else list(value)
