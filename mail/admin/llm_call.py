"""Calls of language models in the admin: what they used and cost, without text."""

from __future__ import annotations

from django.contrib import admin

from interfaces.admin.base import column
from jobs.admin.base import age_column
from mail.admin.base import MailAdmin, job_link
from mail.admin.filters import CallTypeFilter
from mail.models import LLMCall
from tenants.admin.base import FirmFilter


@admin.register(LLMCall)
class LLMCallAdmin(MailAdmin):
    """Model calls, the newest first."""

    empty_text = "No language model was asked yet: LLM_PROVIDER says which one is."
    list_display = (
        "call_type", "model", "prompt_tokens", "completion_tokens", "cost", "latency_ms", "error",
        "account", "firm", "created",
    )  # fmt: skip
    list_select_related = ("firm", "account")
    list_filter = (CallTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = (
        "call_type", "provider", "model", "prompt_tokens", "completion_tokens", "cost",
        "latency_ms", "error", "account", "job", "firm", "created_at",
    )  # fmt: skip
    cost = column("Cost", lambda call: f"${call.cost_microdollars / 1_000_000:.4f}")
    job = column("Job", lambda call: job_link(call.job_id))
    created = age_column("Created", "created_at")
