"""What operators do to dead letters: reprocess, discard, escalate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

from jobs.engine import reprocess as reprocessing
from jobs.engine.enqueue import enqueue
from jobs.engine.lookup import read_job
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations.target import id_of
from tenants.audit import Actor, as_actor

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None


def reprocess(
    dead_letter: DeadLetterQueue | UUID | str,
    *,
    by: By = None,
    payload: Mapping[str, Any] | None = None,
    priority: int | None = None,
    note: str = "",
) -> JobQueue:
    """Send the dead letter's job round again, with an edited payload when one is given.

    Returns the job as it is now.

    Raises:
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided before (KeyHeld: a live job holds its idempotency key).
        PayloadInvalid: the edited payload or the priority is refused.
    """
    job_id = reprocessing.reprocess(
        id_of(dead_letter), by=as_actor(by), payload=payload, priority=priority, note=note
    )
    return read_job(job_id)


def discard(dead_letter: DeadLetterQueue | UUID | str, reason: str, *, by: By = None) -> None:
    """Give the dead letter's job up for good: it becomes failed.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided before.
    """
    reprocessing.discard(id_of(dead_letter), reason, by=as_actor(by))


def escalate(
    dead_letter: DeadLetterQueue | UUID | str,
    reason: str,
    *,
    to: AbstractBaseUser | None = None,
    by: By = None,
) -> None:
    """Ask somebody by e-mail to look at a dead letter (`addressees`); it stays open.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided or escalated before.
    """
    letter_id = id_of(dead_letter)
    with transaction.atomic():
        firm_id = reprocessing.escalate(letter_id, reason, to=to, by=as_actor(by))
        enqueue("escalation_notice", {"dead_letter_id": letter_id}, firm=firm_id)
