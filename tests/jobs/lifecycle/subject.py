"""Brings a job into any state by the engine's functions and by operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.lease import mark_processing, note_running
from jobs.engine.outcomes import Completed, DeadLettered
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations import dead_letters as operations
from jobs.operations import jobs
from jobs.queue import enqueue
from jobs.states import DeadReason, Resolution, Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import (
    FAILURE,
    dead_letters,
    escalate_without_notice,
    finish,
    new_worker,
    row,
    take_one,
)

ESCALATED = "escalated"


@dataclass
class Subject:
    """The job, its dead letter (open or decided), and the claim that its last worker holds."""

    job_id: UUID
    letter_id: UUID
    claim: Claim

    @property
    def job(self) -> JobQueue:
        """The job as it is now."""
        return row(self.job_id)

    @property
    def letter(self) -> DeadLetterQueue:
        """The first dead letter as it is now."""
        (found,) = [one for one in dead_letters() if one.pk == self.letter_id]
        return found

    @property
    def state(self) -> str:
        """The state of the job, in the words of the table."""
        status, resolution = self.job.status, self.letter.resolution
        escalated = status == Status.DLQ and resolution == Resolution.ESCALATED
        return ESCALATED if escalated else status

    def columns(self) -> list[dict[str, Any]]:
        """Return all columns of the job and its dead letters, which a refusal must not change."""
        with all_firms("test"):
            of_job = JobQueue.objects.filter(pk=self.job_id)
            of_letters = DeadLetterQueue.objects.filter(original_job_id=self.job_id)
            return [*of_job.values(), *of_letters.order_by("pk").values()]


def subject(firm: Firm, state: str) -> Subject:
    """Return a job of the firm in this state; its first series has ended in a dead letter."""
    job_id = enqueue("test.work", firm=firm).job_id
    worker_id = new_worker()
    held = take_one(worker_id)
    finish(held, DeadLettered(DeadReason.FATAL, FAILURE))
    (letter,) = dead_letters()
    made = Subject(job_id, letter.pk, held)
    if state == ESCALATED:
        escalate_without_notice(letter.pk, "look")
    elif state == Status.FAILED:
        operations.discard(letter.pk, "obsolete")
    elif state != Status.DLQ:
        operations.reprocess(letter.pk)
        _go_round_again(made, Status(state), worker_id)
    assert made.state == state
    return made


def _go_round_again(made: Subject, status: Status, worker_id: UUID) -> None:
    if status is Status.PENDING:
        return
    if status is Status.CANCELED:
        jobs.cancel(made.job_id)
        return
    made.claim = take_one(worker_id)
    if status is not Status.CLAIMED:
        assert note_running(worker_id, made.job_id.bytes)
        mark_processing([made.claim])
    if status is Status.COMPLETED:
        finish(made.claim, Completed({}))
