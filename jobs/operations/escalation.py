"""The e-mail about an escalated dead letter, and who receives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.auth import get_user_model

from jobs.errors import Fatal
from jobs.models import DeadLetterQueue
from jobs.operations.notifications.events import DEAD_LETTER_PAGE, link_to
from tenants.models import Firm, Membership, Role
from tenants.scope import firm_scope
from tenants.users import email_field

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

NO_RECIPIENTS = (
    "Nobody was told: neither the assignee, nor an admin of the firm, nor platform staff has an "
    "e-mail address."
)


def escalation_recipients(firm_id: int, assignee: AbstractBaseUser | None) -> list[str]:
    """Return the assignee's address, else those of the firm's admins, else of platform staff."""
    field = email_field()
    if field is None:
        return []
    address = getattr(assignee, field, "") if assignee is not None else ""
    if address:
        return [address]
    with firm_scope(firm_id):
        admins = Membership.objects.filter(firm=firm_id, role=Role.ADMIN).values("user_id")
        reachable = (
            get_user_model().objects.filter(is_active=True).exclude(**{field: ""}).order_by("pk")
        )
        members = reachable.filter(pk__in=admins)
        return list(members.values_list(field, flat=True)) or list(
            reachable.filter(is_superuser=True).values_list(field, flat=True)
        )


@dataclass(frozen=True)
class EscalationNotice:
    """The e-mail about one escalated dead letter."""

    recipients: list[str]
    subject: str
    body: str


def escalation_notice_of(firm: Firm, dead_letter_id: UUID) -> EscalationNotice:
    """Return the e-mail, which may have no recipients.

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
            raise Fatal(f"dead letter {dead_letter_id} no longer exists")
        recipients = escalation_recipients(firm.pk, letter.assigned_to)
    subject = f"[Mailroom] {letter.original_job.job_type} needs a decision ({letter.reason})"
    return EscalationNotice(recipients, subject, _body(firm, letter))


def _body(firm: Firm, letter: DeadLetterQueue) -> str:
    return (
        f"A dead letter of {firm.name} was escalated.\n\n"
        f"Job type:   {letter.original_job.job_type}\n"
        f"Job:        {letter.original_job_id}\n"
        f"Reason:     {letter.reason}\n"
        f"Error:      {letter.error_class}\n"
        f"Moved at:   {letter.moved_at:%Y-%m-%d %H:%M} UTC\n"
        f"Note:       {letter.resolution_note}\n"
        f"Its page:   {link_to(DEAD_LETTER_PAGE.format(letter.pk))}\n\n"
        f"It stays open until somebody reprocesses or discards it (dead letter {letter.pk}).\n"
    )
