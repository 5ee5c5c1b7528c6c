"""Short names for the tests of approvals: one that waits, and a person who decides."""

from __future__ import annotations

from mail.models import Approval, OutboundMessage
from tenants.audit import Actor
from tenants.models import AuditEntry, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.mail_kit import Mailbox, drain, only, stored
from tests.mail.send_kit import answer


def person(box: Mailbox, role: Role = Role.OPERATOR, name: str = "ada@acme.example") -> Actor:
    """Return a member of the firm, as the actor of an operation."""
    user = UserFactory(
        username=name, email=name, is_staff=True, member_of=box.firm, member_of__role=role
    )
    return Actor("admin", user)


def waiting(box: Mailbox) -> Approval:
    """Ask for approval of an answer."""
    from mail.services.approvals.approvals import ask_approval

    arrived = box.receive()
    box.store_all()
    drain()
    outbound = answer(box, arrived, needs_approval=True)
    with firm_scope(box.firm):
        return ask_approval(outbound=outbound, reasons=["dangerous"])


def audited(approval: Approval) -> list[tuple[str, str]]:
    """Return what the audit log says of the approval: operations and actors."""
    return [
        (entry.act, entry.actor_name)
        for entry in stored(AuditEntry)
        if entry.target_id == str(approval.pk)
    ]


def reread(approval: Approval) -> Approval:
    """Return the approval as it is stored."""
    found: Approval = only(stored(Approval), pk=approval.pk)
    return found


def outbound_of(approval: Approval) -> OutboundMessage:
    """Return the outbound message that the approval is about."""
    found: OutboundMessage = only(stored(OutboundMessage), pk=approval.outbound_id)
    return found
