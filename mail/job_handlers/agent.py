"""`agent_process`: an agent works on one message."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from jobs.errors import Cancel, Fatal, HandlerError, LeaseLost, Snooze
from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import GMAIL_RETRY, AccountPayload, mailbox, mailbox_key, model_errors
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.agents.process import process_message
from mail.services.agents.run import fail_run
from mail.services.queueing import thread_lock


class AgentProcessPayload(AccountPayload):
    """A message and its thread by our ids, the profile, and the name of the rule that chose it."""

    message_id: UUID
    thread_id: UUID
    profile: Annotated[str, Field(min_length=1, max_length=MAX_PROFILE_LENGTH)]
    route_rule: Annotated[str, Field(max_length=100)] = ""


@job(
    "agent_process",
    category=Category.ORCHESTRATION,
    payload=AgentProcessPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    lock_key=lambda payload: thread_lock(payload.thread_id),
    idempotency_key=lambda p: f"agent_process:{p.account_id}:{p.message_id}",
)
def agent_process(payload: AgentProcessPayload, ctx: JobContext) -> dict[str, Any]:
    """Run the agent; its run is failed once no further attempt will be made."""
    try:
        with mailbox(payload) as (account, _), model_errors():
            return process_message(
                account,
                payload.message_id,
                payload.profile,
                job_id=ctx.job_id,
                checkpoint=ctx.heartbeat,
            )
    except (Snooze, Cancel, LeaseLost):
        raise
    except Exception as error:
        if isinstance(error, Fatal) or ctx.is_last_attempt:
            # Errors that are not ours may quote mail.
            text = str(error) if isinstance(error, HandlerError) else type(error).__name__
            fail_run(payload.tenant_id, ctx.job_id, text)
        raise
