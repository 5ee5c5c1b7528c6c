"""Agents: what each is told and may use, and what it did with each message."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MAX_ERROR_LENGTH, MailAccount
from mail.models.message import Message
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from tenants.models import TenantModel

MAX_INSTRUCTIONS_LENGTH = 20_000


class Preprocessor(models.TextChoices):
    """How a message is read before the agent gets it."""

    PLAIN = "plain", "As it is"
    CRISP = "crisp", "Forwarded by Crisp"
    HELPDESK = "helpdesk", "Forwarded by a helpdesk or a contact form"


class AgentProfile(TenantModel):
    """What an agent is told, which tools it may use, and to whom it may ask to write."""

    name = models.CharField(max_length=MAX_PROFILE_LENGTH, help_text="Routing rules use this name.")
    instructions = models.TextField(help_text="What the agent is told before it reads a message.")
    model = models.CharField(
        max_length=100, blank=True, default="", help_text="Empty: the model in LLM_MODEL."
    )
    max_tokens = models.PositiveIntegerField(
        default=4096, help_text="The most tokens in each reply."
    )
    max_iterations = models.PositiveSmallIntegerField(
        default=10, help_text="How often at most the model is asked about one message."
    )
    tools: models.JSONField[list[str], list[str]] = models.JSONField(
        default=list, blank=True, help_text="The names of the tools it may use; no other one runs."
    )
    recipients: models.JSONField[list[str], list[str]] = models.JSONField(
        default=list,
        blank=True,
        help_text="Addresses, or *@ and a domain, to which it may ask to write besides whoever "
        "wrote the message.",
    )
    preprocessor = models.CharField(max_length=20, choices=Preprocessor, default=Preprocessor.PLAIN)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "agent profile"
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="agent_profile_name_once"),
        ]

    def __str__(self) -> str:
        return self.name


class RunStatus(models.TextChoices):
    """How far a run got."""

    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    MAX_ITERATIONS = "max_iterations", "Stopped: too many iterations"
    ERROR = "error", "Failed"


class AgentRun(TenantModel):
    """One job of an agent, continued by each attempt of the job."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="agent_runs"
    )
    message = models.ForeignKey(
        Message,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="agent_runs",
        help_text="Empty: it was started by a schedule.",
    )
    profile = models.ForeignKey(
        AgentProfile,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="runs",
    )
    profile_name = models.CharField(max_length=MAX_PROFILE_LENGTH)
    status = models.CharField(max_length=20, choices=RunStatus, default=RunStatus.RUNNING)
    steps: models.JSONField[list[dict[str, Any]], list[dict[str, Any]]] = models.JSONField(
        default=list,
        blank=True,
        help_text="[{text, calls: [{call_id, tool, arguments, result}]}], an entry a reply.",
    )
    final_message = models.TextField(blank=True, default="", help_text="What it said at last.")
    error = models.CharField(max_length=MAX_ERROR_LENGTH, blank=True, default="")
    approvals_asked = models.PositiveSmallIntegerField(default=0)
    job_id = models.UUIDField(help_text="The job that runs it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "agent run"
        constraints = [
            models.UniqueConstraint(fields=["firm", "job_id"], name="agent_run_of_job_once"),
            models.CheckConstraint(
                condition=models.Q(status__in=RunStatus.values), name="agent_run_status_known"
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "id"], name="agent_run_newest"),
            models.Index(fields=["firm", "message", "created_at"], name="agent_run_of_message"),
            models.Index(
                fields=["job_id"],
                condition=models.Q(status=RunStatus.RUNNING),
                name="agent_run_running",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.profile_name} ({self.get_status_display()})"

    @property
    def iterations(self) -> int:
        """How often the model replied."""
        return len(self.steps)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Every call of a tool, {tool, arguments, result, iteration}."""
        return [
            {
                "tool": call["tool"],
                "arguments": call["arguments"],
                "result": call["result"],
                "iteration": number,
            }
            for number, step in enumerate(self.steps, 1)
            for call in step["calls"]
        ]
