"""Runs an agent by its timetable: no message, but a prompt."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from jobs.errors import Cancel
from mail.errors import AgentUnusable, RowGone
from mail.models import AgentSchedule, MailAccount
from mail.services.agents.process import NO_PROFILE, find_profile
from mail.services.agents.run import run_agent
from mail.services.agents.schedules import why_stopped
from tenants.scope import firm_scope

MAX_OUTPUT = 5000
PRIVATE_OUTPUT = "(private: the run's page shows it to readers of the mailbox)"


def invoke_agent(
    account: MailAccount,
    schedule_id: UUID,
    agent_name: str,
    prompt: str,
    *,
    job_id: UUID,
    checkpoint: Callable[[], None],
) -> dict[str, Any]:
    """Run the agent, and return the job's result; what it said only of a mailbox that all may read.

    In any other mailbox it does what the timetable says now, whatever the job's payload does: who may
    enqueue and edit jobs need not be one who may read the mailbox.

    Raises:
        Cancel: the person on whose behalf it runs left.
        AgentUnusable: there is no such profile, it is switched off, or no model is configured.
        RowGone: the timetable was deleted.
        ModelError: the model did not answer.
    """
    begun = time.monotonic()
    with firm_scope(account.firm_id):
        rows = AgentSchedule.objects.select_related("user", "profile")
        schedule = rows.filter(pk=schedule_id, account=account).first()
        if schedule is None:
            raise RowGone(f"agent schedule {schedule_id} is gone")
        if reason := why_stopped(schedule):
            raise Cancel(reason)
        if not account.shared:
            agent_name, prompt = schedule.profile.name, schedule.prompt
        profile = find_profile(agent_name)
    if profile is None:
        raise AgentUnusable(NO_PROFILE.format(agent_name))
    run = run_agent(account, profile, prompt, job_id=job_id, checkpoint=checkpoint)
    return {
        "output": run.final_message[:MAX_OUTPUT] if account.shared else PRIVATE_OUTPUT,
        "duration_ms": round((time.monotonic() - begun) * 1000),
        "pending_actions": run.approvals_asked,
        "run_id": str(run.pk),
        "status": str(run.status),
    }
