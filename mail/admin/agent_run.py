"""Agent runs in the admin: what each did, step by step."""

from __future__ import annotations

from django.contrib import admin

from interfaces.admin.base import column
from jobs.admin.base import age_column
from mail.admin.base import (
    ContentAdmin,
    if_readable,
    json_block,
    status_column,
)
from mail.admin.filters import CreatedFilter, RunStatusFilter
from mail.models import AgentRun, RunStatus
from tenants.admin.base import FirmFilter

RUN_STATUS_LABELS: dict[str, str] = {
    RunStatus.RUNNING: "primary",
    RunStatus.COMPLETED: "success",
    RunStatus.MAX_ITERATIONS: "warning",
    RunStatus.ERROR: "danger",
}


@admin.register(AgentRun)
class AgentRunAdmin(ContentAdmin):
    """Runs, the newest first."""

    empty_text = "No agent has worked yet: a routing rule or a schedule makes one work."
    list_display = ("profile_name", "state", "rounds", "questions", "account", "firm", "started")
    list_select_related = ("firm", "account", "message")
    list_filter = (RunStatusFilter, FirmFilter, CreatedFilter)
    search_fields = ("profile_name__icontains",)
    search_help_text = "Part of the profile's name"
    ordering = ("-id",)
    fields = (
        "profile_name", "on", "status", "error", "said", "did", "questions", "account", "job", "firm",
        "created_at", "completed_at",
    )  # fmt: skip
    rounds = column("Iterations", lambda row: row.iterations)
    questions = column("Approvals asked for", lambda row: row.approvals_asked)
    started = age_column("Started", "created_at")
    state = status_column(RUN_STATUS_LABELS)
    said = column("The agent's reply", lambda row: if_readable(row, row.final_message) or "-")
    did = column("Tools used", lambda row: json_block(if_readable(row, row.steps)))
