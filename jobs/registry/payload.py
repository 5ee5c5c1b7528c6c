"""The base of payload schemas."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr

# Default factories that make an equal value each time.
_CONSTANT = (None, dict, frozenset, list, set, tuple)
NO_ENVELOPE = {"tenant_id": 0, "version": "", "correlation_id": ""}


class JobPayload(BaseModel):
    """The base of every payload schema: the envelope, and no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    # Fields with content from elsewhere, whose keys are not checked for secrets.
    free_form: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:
        # Code that builds a payload may leave the envelope out; stored payloads have it.
        tenant_id: StrictInt = 0
        version: StrictStr = ""
        correlation_id: StrictStr = ""
    else:
        tenant_id: StrictInt
        version: StrictStr
        correlation_id: StrictStr

        def __init__(self, /, **fields: Any) -> None:
            """Build a payload by hand, as a test does; the envelope may be left out."""
            super().__init__(**{**NO_ENVELOPE, **fields})

        # Otherwise pydantic would call it for every payload that it reads, and demand no envelope.
        __init__.__pydantic_base_init__ = True


def made_defaults(payload: JobPayload) -> dict[str, Any]:
    """Return, as JSON by key, the values that a `default_factory` made for the missing fields.

    They are stored with the job, because each attempt would make other ones. Those of nested models
    are not.
    """
    keys = _made_fields(type(payload))
    if not keys or not (missing := keys.keys() - payload.model_fields_set):
        return {}
    made = payload.model_dump(mode="json", include=missing)
    return {keys[name]: made[name] for name in missing}


@cache
def _made_fields(model: type[JobPayload]) -> dict[str, str]:
    """Return the key in payloads of each field whose default a function makes."""
    return {
        name: field.validation_alias or name
        for name, field in model.model_fields.items()
        if field.default_factory not in _CONSTANT and isinstance(field.validation_alias, str | None)
    }


def is_older(version: str, than: str) -> bool:
    """Say whether a payload version precedes another; False if one is not made of numbers."""
    try:
        return _parts(version) < _parts(than)
    except ValueError:
        return False


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
