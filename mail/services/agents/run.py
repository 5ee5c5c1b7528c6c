"""Runs an agent: asks the model, uses the tools it calls as the profile allows, until it is done.

Each reply is stored with the results of its calls in one transaction, so that an attempt of the job
continues where the one before stopped, and no call is carried out twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from pydantic import ValidationError

from jobs.models import JobQueue
from jobs.states import LIVE
from mail.errors import AgentUnusable
from mail.llm.client import Conversation, Exchange, Reply, ToolCall
from mail.llm.prompts import prompt as prompt_file
from mail.llm.prompts import system_layers
from mail.models import (
    MAX_ERROR_LENGTH,
    AgentProfile,
    AgentRun,
    EventType,
    MailAccount,
    Message,
    RunStatus,
)
from mail.services.agents.tool import ToolCallContext, ToolRefused
from mail.services.agents.tools import tools_of
from mail.services.deciding.classifiers import told_to_the_model
from mail.services.deciding.model_calls import ask_agent, configured_client
from mail.services.mailboxes.accounts import usable_account
from mail.services.timelines.events import record_event
from mail.text.cleaning import clean_text
from mail.text.helpdesk import Inquiry
from tenants.models import Firm
from tenants.scope import firm_or_all, firm_scope

MAX_CALLS_PER_REPLY = 8
# Calls beyond MAX_CALLS_PER_REPLY are refused; calls beyond MAX_CALLS_STORED are dropped unseen.
MAX_CALLS_STORED = 32
MAX_STORED_TEXT = 50_000
MAX_STORED_DEPTH = 8
MAX_TOOL_NAME = 100
STRANDED = "Its job was canceled, or killed its workers"
NO_PROFILE = "There is no enabled agent profile “{}”"
NO_MODEL = "No language model is configured: an agent needs one, see LLM_PROVIDER"


def run_agent(
    account: MailAccount,
    profile: AgentProfile,
    prompt: str,
    *,
    job_id: UUID,
    message: Message | None = None,
    inquiry: Inquiry | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> AgentRun:
    """Run the agent to its end, or from where an earlier attempt of the job stopped.

    No transaction may be open. `checkpoint` is called before each question to the model, and stops
    the run by raising. Profile and mailbox are read anew for each question, the profile also for
    each reply. The run returned is completed, or stopped after too many iterations.

    Raises:
        AgentUnusable: the profile is deleted or switched off, or no language model is configured.
        MailError: the mailbox may no longer be worked on.
        ModelError: the model did not answer; the job's next attempt continues the run.
    """
    with firm_scope(account.firm_id):
        run = _open_run(account, profile, job_id, message)
    context = ToolCallContext(run, account, profile, message, inquiry)
    while run.status == RunStatus.RUNNING:
        account = usable_account(account.firm_id, account.pk)
        with firm_scope(account.firm_id):
            context = replace(context, account=account, profile=_profile_now(profile))
        if run.iterations >= context.profile.max_iterations:
            _stop(context)
            continue
        checkpoint()
        _take_step(context, _ask(context, prompt))
    return run


def _ask(context: ToolCallContext, prompt: str) -> Reply:
    account, profile, run = context.account, context.profile, context.run
    client = configured_client(profile.model)
    if client is None:
        raise AgentUnusable(NO_MODEL)
    conversation = Conversation(
        system=_system(account, profile, context.message),
        user=prompt,
        tools=tuple(tool.declared() for tool in tools_of(profile).values()),
        max_tokens=profile.max_tokens,
        exchanges=tuple(_exchange(step) for step in run.steps),
    )
    message_id = None if context.message is None else context.message.pk
    return ask_agent(client, conversation, account, message_id=message_id, job_id=run.job_id)


def _profile_now(profile: AgentProfile) -> AgentProfile:
    """Return the profile as it is now. Must run in the firm's scope."""
    found: AgentProfile | None = AgentProfile.objects.filter(pk=profile.pk, enabled=True).first()
    if found is None:
        raise AgentUnusable(NO_PROFILE.format(profile.name))
    return found


def fail_run(firm_id: int, job_id: UUID, error: str) -> None:
    """Mark the job's run failed, as it will not continue; `error` holds no mail text."""
    with firm_scope(firm_id):
        AgentRun.objects.filter(job_id=job_id, status=RunStatus.RUNNING).update(
            status=RunStatus.ERROR, error=error[:MAX_ERROR_LENGTH], completed_at=timezone.now()
        )


def fail_stranded_runs(firm: Firm | None = None) -> int:
    """Fail the firm's running runs, or every firm's, whose jobs are over; return how many.

    If such a job is retried, it continues its run.
    """
    with firm_or_all(firm, "agents' runs whose jobs are over"):
        live = JobQueue.objects.filter(pk=OuterRef("job_id"), status__in=LIVE)
        stranded = AgentRun.objects.filter(~Exists(live), status=RunStatus.RUNNING)
        return stranded.update(status=RunStatus.ERROR, error=STRANDED, completed_at=timezone.now())


def _open_run(
    account: MailAccount, profile: AgentProfile, job_id: UUID, message: Message | None
) -> AgentRun:
    run: AgentRun
    run, created = AgentRun.objects.get_or_create(
        job_id=job_id,
        defaults={
            "account": account,
            "message": message,
            "profile": profile,
            "profile_name": profile.name,
        },
    )
    if not created and run.status == RunStatus.ERROR:
        # A dead letter was reprocessed, so its run continues.
        run.status, run.error, run.completed_at = RunStatus.RUNNING, "", None
        run.save(update_fields=["status", "error", "completed_at"])
    return run


def _system(account: MailAccount, profile: AgentProfile, message: Message | None) -> str:
    sender = "" if message is None else message.sender_address
    base = f"{prompt_file('agent').strip()}\n\nYour task:\n\n{profile.instructions.strip()}"
    return system_layers(base, *told_to_the_model(account, sender))


def _take_step(context: ToolCallContext, reply: Reply) -> None:
    """Use the tools that the reply calls and store it, unless another attempt has already."""
    run = context.run
    known = run.iterations
    with firm_scope(run.firm_id):
        # Read again, because the model may have taken a minute.
        context = replace(context, profile=_profile_now(context.profile))
        locked = AgentRun.objects.select_for_update(no_key=True).get(pk=run.pk)
        if locked.iterations != known or locked.status != RunStatus.RUNNING:
            run.refresh_from_db()
            return
        used: list[dict[str, Any]] = []
        run.steps.append({"text": _storable(reply.text), "calls": used})
        for call in reply.calls[:MAX_CALLS_STORED]:
            used.append(_use(context, call, len(used)))
        if not reply.calls:
            _finish(context, RunStatus.COMPLETED)
        run.save()


def _stop(context: ToolCallContext) -> None:
    with firm_scope(context.run.firm_id):
        _finish(context, RunStatus.MAX_ITERATIONS)
        context.run.save()


def _finish(context: ToolCallContext, status: RunStatus) -> None:
    run = context.run
    run.status, run.completed_at = status, timezone.now()
    run.final_message = next((step["text"] for step in reversed(run.steps) if step["text"]), "")
    record_event(
        EventType.AGENT_FINISHED,
        context.account,
        message=context.message,
        detail={"run_id": str(run.pk), "profile": run.profile_name, "status": status.value},
    )


def _use(context: ToolCallContext, call: ToolCall, number: int) -> dict[str, Any]:
    """Use one tool and return the call as it is stored."""
    tool, arguments = clean_text(call.tool, MAX_TOOL_NAME), _storable(call.arguments)
    if len(json.dumps(arguments)) > MAX_STORED_TEXT:
        arguments = {}
        result = {"error": f"the arguments are longer than {MAX_STORED_TEXT} characters"}
    else:
        result = _result(context, tool, arguments, number)
    return {
        "call_id": _storable(call.call_id),
        "tool": tool,
        "arguments": arguments,
        "result": result,
    }


def _result(context: ToolCallContext, name: str, arguments: Any, number: int) -> dict[str, Any]:
    """Return the tool's result; an error is returned to the model, too."""
    asked = context.run.approvals_asked
    try:
        return _perform(context, name, arguments, number)
    except ValidationError as error:
        return {"error": "; ".join(_fault(fault) for fault in error.errors())}
    except ToolRefused as error:
        context.run.approvals_asked = asked
        return {"error": str(error)}


def _perform(context: ToolCallContext, name: str, arguments: Any, number: int) -> dict[str, Any]:
    if number >= MAX_CALLS_PER_REPLY:
        raise ToolRefused(f"at most {MAX_CALLS_PER_REPLY} calls at once")
    tool = tools_of(context.profile).get(name)
    if tool is None:
        raise ToolRefused(f"Unknown tool: {name}")
    checked = tool.arguments.model_validate(arguments)
    with transaction.atomic():
        return tool.run(context, checked)


def _fault(fault: Any) -> str:
    return f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"


def _exchange(step: dict[str, Any]) -> Exchange:
    return Exchange(
        text=step["text"],
        calls=tuple(
            ToolCall(call["call_id"], call["tool"], call["arguments"]) for call in step["calls"]
        ),
        results=tuple(json.dumps(call["result"], ensure_ascii=False) for call in step["calls"]),
    )


def _storable(value: Any, depth: int = 0) -> Any:
    """Return what a model sent, fit for the database: no NUL, limited length and depth."""
    if isinstance(value, str):
        return clean_text(value, MAX_STORED_TEXT)
    if depth >= MAX_STORED_DEPTH:
        return None
    if isinstance(value, dict):
        return {clean_text(str(key), 200): _storable(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_storable(one, depth + 1) for one in value]
    return value if isinstance(value, bool | int | None) else str(value)
