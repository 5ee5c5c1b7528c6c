"""E-mails the queue sends to people."""

from __future__ import annotations

from uuid import UUID

from django.core.mail import EmailMessage

from jobs.errors import Fatal
from jobs.models import DeadLetterQueue
from jobs.operations.escalation_recipients import addresses_to_tell
from tenants.models import Firm
from tenants.scope import firm_scope

# Below the web process's address. Asking the URLs for it would load every page into the worker.
PAGE = "/admin/jobs/deadletterqueue/{}/change/"


def send_escalation_notice(firm: Firm, dead_letter_id: UUID) -> int:
    """Write to those who should look (`addressees`), and return how many they are: maybe none.

    Raises:
        Fatal: the dead letter is gone.
    """
    with firm_scope(firm):
        letter = (
            DeadLetterQueue.objects.select_related("original_job", "assigned_to")
            .filter(pk=dead_letter_id)
            .first()
        )
        if letter is None:
            raise Fatal(f"dead letter {dead_letter_id} is gone")
        recipients = addresses_to_tell(firm.pk, letter.assigned_to)
    if not recipients:
        return 0
    EmailMessage(
        subject=f"[Mailroom] {letter.original_job.job_type} needs a look ({letter.reason})",
        body=_body(firm, letter),
        to=recipients,
    ).send()
    return len(recipients)


def _body(firm: Firm, letter: DeadLetterQueue) -> str:
    return (
        f"A dead letter of {firm.name} was escalated.\n\n"
        f"Job type:   {letter.original_job.job_type}\n"
        f"Job:        {letter.original_job_id}\n"
        f"Reason:     {letter.reason}\n"
        f"Error:      {letter.error_class}\n"
        f"Moved at:   {letter.moved_at:%Y-%m-%d %H:%M} UTC\n"
        f"Note:       {letter.resolution_note}\n"
        f"Its page:   {PAGE.format(letter.pk)}\n\n"
        f"It stays open until somebody reprocesses or discards it (dead letter {letter.pk}).\n"
    )
