"""The payload of jobs that work for every firm: only the system firm has such jobs."""

from __future__ import annotations

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from jobs.registry.payload import JobPayload
from tenants.models import SYSTEM_SLUG, Firm


class SystemPayload(JobPayload):
    """The payload of a job of the system firm.

    A firm's own people may enqueue and schedule jobs of the firm, but its job must neither change
    rows of other firms nor tell, by its result, how many they have.
    """

    @field_validator("tenant_id")
    @classmethod
    def _check_system(cls, firm_id: int) -> int:
        if not Firm.objects.filter(pk=firm_id, slug=SYSTEM_SLUG).exists():
            message = "is not the system firm's: jobs of this type work for every firm"
            raise PydanticCustomError("system_only", message)
        return firm_id
