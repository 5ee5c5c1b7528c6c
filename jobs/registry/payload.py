"""The base of payload schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr

NO_ENVELOPE = {"tenant_id": 0, "version": "", "correlation_id": ""}


class JobPayload(BaseModel):
    """The base of every payload schema: the envelope, and no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    # Fields whose content has keys of others: keys inside are not checked for secrets.
    free_form: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:
        # Who builds a payload may leave the envelope out; stored ones have it.
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

        # Else pydantic would call it for every payload that it reads, and demand no envelope.
        __init__.__pydantic_base_init__ = True
