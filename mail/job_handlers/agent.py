"""`agent_process`: an agent works on one message; `agent_invocation`: by a timetable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from jobs.errors import Cancel
from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import agents_interval_seconds
from mail.job_handlers.base import (
    GMAIL_RETRY,
    AccountPayload,
    failing_at_last,
    mailbox_key,
    model_errors,
    usable_mailbox,
)
from mail.models import MailAccount
from mail.models.agent_schedule import MAX_PROMPT_LENGTH
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.agents.invocation import invoke_agent
from mail.services.agents.process import process_message
from mail.services.agents.run import fail_run, fail_stranded_runs
from mail.services.agents.schedules import (
    INVOCATION_TYPE,
    account_of_schedule,
    enqueue_due_agents,
)
from mail.services.mailboxes.connection import mailbox_limit_key
from mail.services.queueing import thread_lock
from tenants.scope import firm_scope

ENQUEUE_TYPE = "agents.enqueue_due"


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
    """Run the agent on the message."""
    with _run_of(payload.tenant_id, payload.account_id, ctx) as account:
        return process_message(
            account,
            payload.message_id,
            payload.profile,
            job_id=ctx.job_id,
            checkpoint=ctx.heartbeat,
        )


class AgentInvocationPayload(JobPayload):
    """A timetable by its id, and what it asked the agent when it was due.

    Without `account_id` it is about the timetable's mailbox. In a mailbox that is not for the whole
    firm, the timetable is asked for agent and prompt when the job runs.
    """

    id: UUID
    account_id: UUID | None = None
    user_id: int | None = None
    agent_name: Annotated[str, Field(min_length=1, max_length=MAX_PROFILE_LENGTH)]
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT_LENGTH)]
    config: dict[str, str] = {}


def _account_of(payload: AgentInvocationPayload) -> UUID | None:
    if payload.account_id is not None:
        return payload.account_id
    with firm_scope(payload.tenant_id):
        return account_of_schedule(payload.id)


def _due_at(payload: AgentInvocationPayload) -> datetime | None:
    """Return the date that the job is for; None if it was enqueued by hand."""
    try:
        due_at = datetime.fromisoformat(payload.config.get("due_at", ""))
    except ValueError:
        return None
    return due_at if due_at.tzinfo is not None else None


def _limit_key(payload: AgentInvocationPayload) -> str:
    account_id = _account_of(payload)
    # A deleted timetable has no mailbox whose calls to count; its job is canceled at once.
    return f"agent:{payload.id}" if account_id is None else mailbox_limit_key(account_id)


@job(
    INVOCATION_TYPE,
    category=Category.ORCHESTRATION,
    payload=AgentInvocationPayload,
    retry=GMAIL_RETRY,
    limit_key=_limit_key,
    lock_key=lambda payload: f"agent:{payload.id}",
)
def agent_invocation(payload: AgentInvocationPayload, ctx: JobContext) -> dict[str, Any]:
    """Run the agent of a timetable."""
    account_id = _account_of(payload)
    if account_id is None:
        raise Cancel(f"agent schedule {payload.id} is gone")
    with _run_of(payload.tenant_id, account_id, ctx) as account:
        return invoke_agent(
            account,
            payload.id,
            payload.agent_name,
            payload.prompt,
            due_at=_due_at(payload),
            job_id=ctx.job_id,
            checkpoint=ctx.heartbeat,
        )


@job(
    ENQUEUE_TYPE,
    category=Category.RECURRENCE,
    payload=JobPayload,
    lock_key=lambda _: ENQUEUE_TYPE,
)
def enqueue_due(_: JobPayload, ctx: JobContext) -> dict[str, Any]:
    """Enqueue the agents whose time has come; the system firm's job does it for every firm.

    Runs whose jobs ended without setting a status, by a cancellation or a kill, are marked as
    failed.
    """
    enqueued = enqueue_due_agents(ctx.heartbeat, ctx.firm)
    return {"enqueued": enqueued, "failed": fail_stranded_runs(ctx.firm)}


default_schedule("Enqueue scheduled agents", ENQUEUE_TYPE, every_seconds=agents_interval_seconds)


@contextmanager
def _run_of(firm_id: int, account_id: UUID, ctx: JobContext) -> Iterator[MailAccount]:
    """Yield the mailbox; mark the job's run as failed if no further attempt will be made."""
    fail = partial(fail_run, firm_id, ctx.job_id)
    use = usable_mailbox(firm_id, account_id)
    with failing_at_last(ctx, fail), use as (account, _), model_errors():
        yield account
