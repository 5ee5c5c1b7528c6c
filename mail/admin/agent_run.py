"""Agent runs in the admin: what each did, step by step."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import column
from jobs.admin.base import age_column
from mail.admin.base import ContentAdmin, if_readable, job_link, json_block, message_link
from mail.admin.filters import CreatedFilter, RunStatusFilter
from mail.models import AgentRun, RunStatus
from tenants.admin.filters import FirmFilter

RUN_STATUS_LABELS: dict[str, str] = {
    RunStatus.RUNNING: "primary",
    RunStatus.COMPLETED: "success",
    RunStatus.MAX_ITERATIONS: "warning",
    RunStatus.ERROR: "danger",
}


@admin.register(AgentRun)
class AgentRunAdmin(ContentAdmin):
    """Runs, the newest first."""

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
    readonly_fields = ("on", "said", "did", "questions", "job")
    rounds = column("Iterations", lambda run: run.iterations)
    questions = column("Approvals asked for", lambda run: run.approvals_asked)
    job = column("Job", lambda run: job_link(run.job_id))
    started = age_column("Started", "created_at")

    @display(description="Status", label=RUN_STATUS_LABELS)
    def state(self, run: AgentRun) -> tuple[str, str]:
        """Return the status."""
        return run.status, run.get_status_display()

    @display(description="Message")
    def on(self, run: AgentRun) -> SafeString | str:
        """Return a link to the message."""
        return message_link(run.message, is_readable=run.is_readable)  # type: ignore[attr-defined]  # annotated

    @display(description="The agent's reply")
    def said(self, run: AgentRun) -> str:
        """Return the run's final message, which may quote the mail."""
        return str(if_readable(run, run.final_message) or "-")

    @display(description="Tools used")
    def did(self, run: AgentRun) -> SafeString | str:
        """Return the tool calls with their results."""
        return json_block(if_readable(run, run.steps))
