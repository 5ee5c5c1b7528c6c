"""Runs an agent on one message, whose conversation then no longer waits for the pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from mail.errors import AgentUnusable, RowGone
from mail.models import (
    AgentProfile,
    AgentRun,
    MailAccount,
    MailThread,
    Message,
    Preprocessor,
    RunStatus,
    ThreadStatus,
)
from mail.services.agents.run import NO_PROFILE, run_agent
from mail.services.sending.compose import stored_headers
from mail.text.helpdesk import Inquiry, crisp_inquiry, helpdesk_inquiry, plain_inquiry
from mail.text.parsed import Address
from tenants.scope import firm_scope

MAX_PROMPT_TEXT = 8000
MAX_ATTACHMENTS = 20
MAX_FILENAME = 200


def process_message(
    account: MailAccount,
    message_id: UUID,
    profile_name: str,
    *,
    job_id: UUID,
    checkpoint: Callable[[], None],
) -> dict[str, Any]:
    """Run the profile's agent on the message, and return the job's result.

    Raises:
        AgentUnusable: there is no such profile, it is switched off, or no model is configured.
        RowGone: the mailbox has no such message.
        ModelError: the model did not answer.
    """
    with firm_scope(account.firm_id):
        messages = Message.objects.select_related("account", "thread", "firm")
        message = messages.filter(account=account, pk=message_id).first()
        if message is None:
            raise RowGone(f"message {message_id} is gone, or belongs to another mailbox")
        profile = find_profile(profile_name)
        if profile is None:
            _keep_failed(account, message, profile_name, job_id)
    if profile is None:
        raise AgentUnusable(NO_PROFILE.format(profile_name))
    with firm_scope(account.firm_id):
        inquiry = read_inquiry(message, profile.preprocessor)
        prompt = inquiry_prompt(message, inquiry)
    run = run_agent(
        account,
        profile,
        prompt,
        job_id=job_id,
        message=message,
        inquiry=inquiry,
        checkpoint=checkpoint,
    )
    with firm_scope(account.firm_id):
        MailThread.objects.filter(pk=message.thread_id, status=ThreadStatus.PENDING).update(
            status=ThreadStatus.SKIPPED
        )
    return result_of(run)


def find_profile(name: str) -> AgentProfile | None:
    """Return the enabled profile of this name. Must run in the firm's scope."""
    found: AgentProfile | None = AgentProfile.objects.filter(name=name, enabled=True).first()
    return found


def result_of(run: AgentRun) -> dict[str, Any]:
    """Return how a run ended, as a job's result, without any text of the model's."""
    return {
        "run_id": str(run.pk),
        "status": run.status,
        "iterations": run.iterations,
        "tool_calls": len(run.tool_calls),
        "approvals_asked": run.approvals_asked,
    }


def _keep_failed(account: MailAccount, message: Message, profile_name: str, job_id: UUID) -> None:
    AgentRun.objects.get_or_create(
        job_id=job_id,
        defaults={
            "account": account,
            "message": message,
            "profile_name": profile_name,
            "status": RunStatus.ERROR,
            "error": NO_PROFILE.format(profile_name),
        },
    )


def read_inquiry(message: Message, preprocessor: str) -> Inquiry:
    """Return who wrote the message and what it says, as the preprocessor reads it."""
    sender = Address(message.sender_name, message.sender_address)
    forwarded = {Preprocessor.CRISP: crisp_inquiry, Preprocessor.HELPDESK: helpdesk_inquiry}
    read = forwarded.get(Preprocessor(preprocessor))
    if read is None:
        return plain_inquiry(sender, message.subject, message.text)
    return read(sender, message.subject, message.text, stored_headers(message))


def inquiry_prompt(message: Message, inquiry: Inquiry) -> str:
    """Return the inquiry as one JSON object, so that nothing in it can pass for what follows it."""
    names = message.attachments.order_by("part_id").values_list("filename", flat=True)
    data = {
        "from": {"name": inquiry.name, "address": inquiry.address},
        "forwarded_by": message.sender_address
        if inquiry.address != message.sender_address.lower()
        else None,
        "subject": inquiry.subject,
        "received": f"{message.internal_date:%Y-%m-%dT%H:%MZ}",
        "attachments": [name[:MAX_FILENAME] for name in names[:MAX_ATTACHMENTS]],
        "text": inquiry.text[:MAX_PROMPT_TEXT],
    }
    return f"The message, as JSON:\n\n{json.dumps(data, ensure_ascii=False)}"
