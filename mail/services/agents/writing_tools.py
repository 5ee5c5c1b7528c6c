"""Tools that act on the message, ask a person to let them send something, or call a person.

Who may be written to depends on who wrote the message and what the profile allows, and on nothing
that the mail says. Whatever leaves the mailbox waits for a person's approval.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from jobs.operations.escalation import escalation_recipients
from jobs.queue import enqueue
from mail.conf import public_url
from mail.errors import OutboundInvalid
from mail.models import (
    MAX_LABEL_LENGTH,
    ActionStatus,
    ActionType,
    EventType,
    OutboundKind,
    OutboundMessage,
    OutboundStatus,
)
from mail.rules.automated import automated_signal
from mail.rules.safety import check_safety
from mail.services.actions.actions import request_action
from mail.services.agents.tool import (
    AgentTool,
    Arguments,
    ToolCallContext,
    ToolRefused,
    count_approval,
)
from mail.services.approvals.approvals import ask_approval
from mail.services.mailboxes.accounts import has_owner, own_inboxes
from mail.services.mailboxes.modes import may_label
from mail.services.rules.labels import choosable_labels, label_called
from mail.services.sending.compose import reply_content, stored_headers
from mail.services.sending.outbound import request_outbound
from mail.services.timelines.events import record_event
from mail.text.addresses import inbox_of
from mail.text.parsed import Address

RUN_PAGE = "/admin/mail/agentrun/{}/change/"


class LabelArguments(Arguments):
    """Which label."""

    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL_LENGTH, description="Its name.")]


class ReplyArguments(Arguments):
    """What to answer, and to whom."""

    body: Annotated[str, Field(min_length=1, max_length=20_000, description="Plain text.")]
    to: Annotated[str, Field(max_length=320, description="Empty: whoever wrote the message.")] = ""


class ForwardArguments(Arguments):
    """To whom to pass the message on."""

    to: Annotated[str, Field(min_length=3, max_length=320, description="One address.")]
    note: Annotated[str, Field(max_length=5_000, description="Stands above the message.")] = ""


class EscalateArguments(Arguments):
    """Why a person has to look."""

    reason: Annotated[str, Field(min_length=1, max_length=1_000)]


def ask_for_action(
    context: ToolCallContext, action_type: ActionType, parameters: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Ask for an action on the message; if it is dangerous, a person must approve it first.

    A person must approve it, too, if the mailbox may not be written to. Must run in the firm's
    scope.
    """
    verdict = check_safety(action_type)
    waits = verdict.needs_approval or not may_label(context.account, context.about)
    if waits:
        count_approval(context)
    action = request_action(context.about, action_type, parameters, needs_approval=waits)
    if action.status == ActionStatus.FAILED:
        raise ToolRefused(action.error)
    status = "waits for a person's approval" if waits else "will be done"
    return {"status": status, "action_id": str(action.pk)}


def apply_label(context: ToolCallContext, arguments: LabelArguments) -> dict[str, Any]:
    """Put a label of the mailbox on the message."""
    label = label_called(arguments.label.strip(), choosable_labels(context.account))
    if label is None:
        raise ToolRefused("the mailbox has no such label")
    return ask_for_action(context, ActionType.APPLY_LABEL, {"label": label.gmail_label_id})


def archive(context: ToolCallContext, _: Arguments) -> dict[str, Any]:
    """Take the message out of the inbox."""
    return ask_for_action(context, ActionType.ARCHIVE)


def star(context: ToolCallContext, _: Arguments) -> dict[str, Any]:
    """Star the message."""
    return ask_for_action(context, ActionType.STAR)


def delete(context: ToolCallContext, _: Arguments) -> dict[str, Any]:
    """Ask a person whether the message may go to the trash."""
    return ask_for_action(context, ActionType.DELETE)


def forward(context: ToolCallContext, arguments: ForwardArguments) -> dict[str, Any]:
    """Ask a person whether the message may be passed on to a recipient of the profile."""
    address = arguments.to.strip().lower()
    if not _is_listed(context, address):
        raise ToolRefused("the profile does not allow this recipient")
    parameters = {"to": [address], "note": arguments.note}
    return ask_for_action(context, ActionType.FORWARD, parameters)


def send_reply(context: ToolCallContext, arguments: ReplyArguments) -> dict[str, Any]:
    """Ask a person whether an answer may be sent to whoever wrote the message."""
    message, to = context.about, _recipient(context, arguments.to)
    waiting = OutboundMessage.objects.filter(
        message=message, kind=OutboundKind.REPLY, status=OutboundStatus.APPROVED_PENDING
    )
    if waiting.exists():
        raise ToolRefused("an answer to this message waits for approval already")
    count_approval(context)
    content = replace(reply_content(message, text=arguments.body), to=(to,))
    try:
        outbound = request_outbound(context.account, content, needs_approval=True)
    except OutboundInvalid as error:
        raise ToolRefused(str(error)) from error
    checks = check_safety(ActionType.AUTO_REPLY, asked_by_model=True).checks
    approval = ask_approval(outbound=outbound, reasons=checks)
    return {"status": "waits for a person's approval", "approval_id": str(approval.pk)}


def _recipient(context: ToolCallContext, wanted: str) -> Address:
    message, inquiry = context.about, context.inquiry
    sender = message.sender_address.lower()
    author = sender if inquiry is None else inquiry.address
    address = wanted.strip().lower() or author
    if address not in {sender, author} and not _is_listed(context, address):
        raise ToolRefused("the profile allows answers to whoever wrote the message only")
    if inbox_of(address) in own_inboxes(context.account):
        raise ToolRefused("this is the mailbox's own address")
    signal = automated_signal(Address(message.sender_name, sender), stored_headers(message))
    if address == sender and signal is not None:
        raise ToolRefused("a machine wrote the message: nobody reads an answer")
    name = inquiry.name if inquiry is not None and address == author else ""
    return Address(name, address)


def _is_listed(context: ToolCallContext, address: str) -> bool:
    domain = f"*@{address.rpartition('@')[2]}"
    return "@" in address and any(one in (address, domain) for one in context.profile.recipients)


def escalate(context: ToolCallContext, _: EscalateArguments) -> dict[str, Any]:
    """Tell people to look at the run, by an event and one e-mail a run, which quotes nothing."""
    # A call that was refused told nobody, so it does not count.
    told = any(
        call["tool"] == "escalate" and "error" not in call["result"]
        for call in context.run.tool_calls
    )
    if told:
        raise ToolRefused("people have been told already")
    record_event(
        EventType.AGENT_ESCALATED,
        context.account,
        message=context.message,
        detail={"run_id": str(context.run.pk), "profile": context.profile.name},
    )
    account = context.account
    owner = account.owner if has_owner(account) else None
    recipients = escalation_recipients(account.firm_id, owner)
    if recipients:
        enqueue("email_send", _escalation_email(context, recipients))
    return {"status": "people are told" if recipients else "it is on the run's page"}


def _escalation_email(context: ToolCallContext, recipients: list[str]) -> dict[str, Any]:
    page = f"{public_url()}{RUN_PAGE.format(context.run.pk)}"
    return {
        "to": recipients,
        # Otherwise it would reach this agent in the recipient's mailbox, which escalates again.
        "is_notice": True,
        "subject": "[Mailroom] An agent asks for a person",
        "body": f"The agent {context.profile.name} asks for a person in {context.account.address}.\n\n"
        f"Why, and what it did:  {page}\n",
    }


WRITING_TOOLS = (
    AgentTool("apply_label", "Put a label on the message.", LabelArguments, apply_label),
    AgentTool("archive", "Take the message out of the inbox.", Arguments, archive),
    AgentTool("star", "Star the message.", Arguments, star),
    AgentTool("delete", "Ask a person to move the message to the trash.", Arguments, delete),
    AgentTool(
        "forward",
        "Ask a person to pass the message on, to a recipient that the profile allows.",
        ForwardArguments,
        forward,
    ),
    AgentTool(
        "send_reply",
        "Ask a person to send your answer to whoever wrote the message.",
        ReplyArguments,
        send_reply,
    ),
    AgentTool(
        "escalate",
        "Call a person, when you cannot help or the message is not what it seems.",
        EscalateArguments,
        escalate,
    ),
)
