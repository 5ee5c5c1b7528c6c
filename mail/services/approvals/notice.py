"""Notifies people of an approval: by e-mail with a signed link, in Discord with buttons.

The admin and REST show every approval. Only people who may decide get the e-mail. What the mail
says goes to nobody else, and to Discord only if all of the firm may read the mailbox.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models.functions import Now

from jobs.execution.context import JobContext
from jobs.operations.notifications.emails import send_email
from jobs.operations.notifications.webhooks import send_discord
from mail import discord
from mail.conf import discord_webhook, public_url
from mail.models import Action, ActionType, Approval, ApprovalStatus, Message, OutboundMessage
from mail.services.actions.actions import irreversible_reason
from mail.services.approvals.tokens import button_token, link_token
from mail.services.mailboxes.accounts import has_owner
from mail.services.mailboxes.content_access import may_read
from mail.services.rules.labels import MailboxLabels
from mail.services.send_each_once import send_each_once
from mail.text.cleaning import clean_line
from tenants.models import Membership, Role
from tenants.scope import firm_scope

EVENT = "approval"
PAGE = "/admin/mail/approval/{}/change/"
LINK = "/approvals/{}/"
MAX_RECIPIENTS = 20
# The limits in a notice and on a page.
MAX_LINE_LENGTH, MAX_FACT_LENGTH = 200, 100_000


def notify_approval(ctx: JobContext, approval_id: UUID) -> dict[str, Any]:
    """Send the notices of an approval that is still pending, and return the job's result.

    Each is sent once, even if another fails.

    Raises:
        HandlerError, OSError: the first failure; the other notices were sent.
    """
    with firm_scope(ctx.firm_id):
        rows = Approval.objects.select_related("account", "message", "action", "outbound", "firm")
        approval: Approval | None = rows.filter(pk=approval_id).first()
        if approval is None or approval.status != ApprovalStatus.PENDING:
            return {"skipped": True, "reason": "Nobody has to be asked any more"}
        people = _deciders(approval)
    sendings = {f"email:{one.pk}": partial(_tell, ctx, approval, one) for one in people}
    webhook = discord_webhook()
    if webhook:
        sendings["discord"] = partial(_post, ctx, webhook, approval)
    send_each_once(ctx, sendings)
    _note(approval)
    return {"recipients": len(people), "discord": bool(webhook)}


def _tell(ctx: JobContext, approval: Approval, person: Any) -> None:
    subject = f"[Mailroom] {approval.subject}: yes or no?"
    send_email(ctx, [person.email], subject, _body(approval, person), event=EVENT)
    _note(approval)


def _note(approval: Approval) -> None:
    """Note that people were asked."""
    with firm_scope(approval.firm_id):
        Approval.objects.filter(pk=approval.pk, notified_at=None).update(notified_at=Now())


def _post(ctx: JobContext, webhook: str, approval: Approval) -> None:
    send_discord(ctx, discord.with_buttons(webhook), _question(approval), EVENT, trusted=True)


def _deciders(approval: Approval) -> list[Any]:
    """Return who may decide and has an e-mail address: the owner, else operators who may read."""
    owner = approval.account.owner
    if owner is not None and owner.email and has_owner(approval.account):
        return [owner]
    deciding = Membership.objects.filter(
        firm_id=approval.firm_id, role__in=[Role.OPERATOR, Role.DEVELOPER, Role.ADMIN]
    ).values("user_id")
    people = get_user_model().objects.filter(pk__in=deciding, is_active=True).exclude(email="")
    readers = [one for one in people.order_by("pk") if may_read(one.pk, approval.account)]
    return readers[:MAX_RECIPIENTS]


def _body(approval: Approval, person: Any) -> str:
    link = LINK.format(link_token(approval, person))
    lines = [f"{name + ':':<9} {value}" for name, value in facts_of(approval)]
    return "\n".join(
        [
            f"Mailroom waits for your approval in {approval.account.address}.",
            "",
            *lines,
            "",
            f"Look at it and decide:  {public_url()}{link}",
            f"In the admin:           {public_url()}{PAGE.format(approval.pk)}",
            "",
            f"Without an answer nothing happens. You can decide until {approval.expires_at:%Y-%m-%d %H:%M} UTC.",
        ]
    )


def facts_of(approval: Approval, *, limit: int = MAX_LINE_LENGTH) -> list[tuple[str, str]]:
    """Return what is asked, in a few lines no longer than this; they quote mail."""
    facts = _public_facts(approval)
    outbound, message = approval.outbound, approval.message
    if outbound is not None:
        facts += [("To", _recipients(outbound, limit)), ("Subject", outbound.subject)]
    elif message is not None:
        facts += [("From", message.sender_address), ("Subject", message.subject)]
    if message is not None and (place := _place_of(message)):
        facts += [("Mail", place)]
    if approval.action is not None:
        with firm_scope(approval.firm_id):
            facts += facts_of_action(approval.action)
    return [(name, clean_line(value, limit)) for name, value in facts]


def all_facts_of(approval: Approval) -> list[tuple[str, str]]:
    """Return the facts uncut, for the page on which a person decides."""
    return facts_of(approval, limit=MAX_FACT_LENGTH)


def _public_facts(approval: Approval) -> list[tuple[str, str]]:
    """Return what is asked, without mail text; and why it could never be undone, if so."""
    facts = [("Action", approval.subject), ("Mailbox", approval.account.address)]
    action = approval.action
    if action is not None:
        with firm_scope(approval.firm_id):
            never = irreversible_reason(
                approval.account, ActionType(action.action_type), action.parameters
            )
        facts += [("Undo", never)] if never else []
    return facts


def _place_of(message: Message) -> str:
    """Return where the mail it is about has gone; empty for mail in the inbox or of the owner's."""
    if "TRASH" in message.labels:
        return "It is in the trash"
    if "SPAM" in message.labels:
        return "It is among spam"
    return "" if message.outgoing or "INBOX" in message.labels else "It is not in the inbox"


def _recipients(outbound: OutboundMessage, limit: int) -> str:
    listed = ", ".join(outbound.recipients)
    # If the list is cut off, the reader sees at least how many recipients there are.
    return listed if len(listed) <= limit else f"{len(outbound.recipients)} recipients: {listed}"


def content_of(outbound: OutboundMessage) -> list[tuple[str, str]]:
    """Return the forms in which a message says something, as readers may see only its HTML."""
    forms = [("Text", outbound.text), ("HTML", outbound.html)]
    return [(name, said) for name, said in forms if said]


def _question(approval: Approval) -> dict[str, Any]:
    facts = facts_of(approval) if approval.account.shared else _public_facts(approval)
    base = public_url()
    return discord.question(
        "\n".join(f"**{name}** {discord.plain(value)}" for name, value in facts),
        approve_id=button_token(approval, "approve"),
        reject_id=button_token(approval, "reject"),
        page=f"{base}{PAGE.format(approval.pk)}" if base else "",
    )


def facts_of_action(action: Action) -> list[tuple[str, str]]:
    """Return what the name of the action does not tell; for readers of the mailbox.

    Must run in the firm's scope.
    """
    parameters = action.parameters if isinstance(action.parameters, dict) else {}
    facts = []
    if label := parameters.get("label"):
        facts.append(("Label", MailboxLabels(action.account_id).name_of(label)))
    if until := parameters.get("until"):
        facts.append(("Until", str(until)))
    elif amount := parameters.get("amount"):
        facts.append(("For", f"{amount} {parameters.get('units', '')}"))
    if proposal := _proposal_of(action):
        confidence, why = proposal.get("confidence"), str(proposal.get("rationale", ""))
        facts.append(("Proposed", f"{why} (by the model, {confidence:.0%} sure)".strip()))
    return facts


def _proposal_of(action: Action) -> dict[str, Any] | None:
    """Return what the decision says of the action; None if no model proposed it."""
    if action.decision is None or action.rule_id is not None:
        return None
    label = (action.parameters or {}).get("label", "")
    name = MailboxLabels(action.account_id).name_of(label).casefold() if label else ""
    for one in action.decision.explanations.get("actions", []):
        is_it = one["action"] == action.action_type and not one.get("refused")
        if is_it and one.get("label", "").casefold() == name:
            return dict(one)
    return None
