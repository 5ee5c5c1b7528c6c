"""Runs an agent by its timetable, with a prompt instead of a message."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.engine.clock import database_now
from jobs.errors import Cancel
from mail.errors import AgentUnusable, RowGone
from mail.models import AgentRun, AgentSchedule, MailAccount
from mail.services.agents.process import find_profile
from mail.services.agents.run import NO_PROFILE, fail_run, run_agent
from mail.services.agents.schedules import why_stopped
from tenants.scope import firm_scope

MAX_OUTPUT = 5000
SWITCHED_OFF = "The agent schedule is switched off"
RUN_SINCE = "The agent has already run after this date"
PRIVATE_OUTPUT = "(private: the run's page shows it to readers of the mailbox)"


def invoke_agent(
    account: MailAccount,
    schedule_id: UUID,
    agent_name: str,
    prompt: str,
    *,
    due_at: datetime | None,
    job_id: UUID,
    checkpoint: Callable[[], None],
) -> dict[str, Any]:
    """Run the agent and return the job's result, with its output if all may read the mailbox.

    In a mailbox that not all may read, the agent follows the timetable of now, not the job's
    payload, because people who may enqueue and edit jobs need not be allowed to read it. `due_at`
    is the date of the run, None if a person asked for it. If several dates waited, one run serves
    all.

    Raises:
        Cancel: the person on whose behalf it runs left, or the timetable is switched off.
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
        if due_at is not None and not schedule.enabled:
            raise Cancel(SWITCHED_OFF)
        if due_at is not None and _is_overtaken(schedule, due_at, job_id):
            fail_run(account.firm_id, job_id, RUN_SINCE)
            return {"skipped": True, "reason": RUN_SINCE}
        if not account.shared:
            agent_name, prompt = schedule.profile.name, schedule.prompt
        profile = find_profile(agent_name)
    if profile is None:
        raise AgentUnusable(NO_PROFILE.format(agent_name))
    run = run_agent(account, profile, prompt, job_id=job_id, checkpoint=checkpoint)
    with firm_scope(account.firm_id):
        AgentSchedule.objects.filter(pk=schedule_id).update(ran_at=database_now())
    return {
        "output": run.final_message[:MAX_OUTPUT] if account.shared else PRIVATE_OUTPUT,
        "duration_ms": round((time.monotonic() - begun) * 1000),
        "pending_actions": run.approvals_asked,
        "run_id": str(run.pk),
        "status": str(run.status),
    }


def _is_overtaken(schedule: AgentSchedule, due_at: datetime, job_id: UUID) -> bool:
    """Say whether the agent has run after this date, before this date's own run did anything.

    A pause or a spent budget can hold several dates back, and each of their runs would do the same.
    """
    if schedule.ran_at is None or due_at > schedule.ran_at:
        return False
    begun = AgentRun.objects.filter(job_id=job_id).first()
    return begun is None or not begun.steps
