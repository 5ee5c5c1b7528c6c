"""How an operator names the row to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from jobs.errors import UnknownJob
from jobs.models import CircuitBreaker, ConcurrencyLock, DeadLetterQueue, JobQueue
from tenants.audit import Actor

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None


def id_of(
    thing: JobQueue | DeadLetterQueue | ConcurrencyLock | CircuitBreaker | UUID | str,
) -> UUID:
    """Return the id of a row given as itself, as its id or as text.

    Raises:
        UnknownJob: the text is no id.
    """
    if isinstance(thing, UUID):
        return thing
    if isinstance(thing, str):
        try:
            return UUID(thing)
        except ValueError as error:
            raise UnknownJob(f"{thing[:64]!r} is not an id") from error
    return UUID(str(thing.pk))
