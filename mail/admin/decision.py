"""Decisions in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.admin.base import age_column
from mail.admin.base import (
    CATEGORY_LABELS,
    ContentAdmin,
    if_readable,
    job_link,
    json_block,
    message_link,
    subject_line,
)
from mail.admin.filters import CategoryFilter, CreatedFilter, SourceFilter
from mail.models import Decision
from tenants.admin.filters import FirmFilter


@admin.register(Decision)
class DecisionAdmin(ContentAdmin):
    """Decisions about messages, with their source and reasons."""

    list_display = ("about", "verdict", "certainty", "source", "account", "firm", "made")
    list_select_related = ("firm", "account", "message")
    list_filter = (CategoryFilter, SourceFilter, FirmFilter, CreatedFilter)
    search_fields = ("message__subject",)
    search_help_text = "Words of the message's subject"
    ordering = ("-id",)
    fields = (
        "on",
        "category",
        "certainty",
        "source",
        "reasoning",
        "why",
        "account",
        "job",
        "created_at",
    )
    readonly_fields = ("on", "certainty", "reasoning", "why", "job")
    made = age_column("Made", "created_at")

    @display(description="Message")
    def about(self, decision: Decision) -> str:
        """Return the message's subject."""
        return str(if_readable(decision, subject_line(decision.message.subject)))

    @display(description="Message")
    def on(self, decision: Decision) -> SafeString | str:
        """Return a link to the message."""
        return message_link(decision.message, is_readable=decision.is_readable)  # type: ignore[attr-defined]  # annotated

    @display(description="Category", label=CATEGORY_LABELS)
    def verdict(self, decision: Decision) -> tuple[str, str]:
        """Return the category."""
        return decision.category, decision.get_category_display()

    @display(description="Confidence")
    def certainty(self, decision: Decision) -> str:
        """Return the confidence in percent, and whether it is too little for a label."""
        return f"{decision.confidence:.0%}" + ("" if decision.labelled else ", not labelled")

    @display(description="Rationale")
    def reasoning(self, decision: Decision) -> str:
        """Return the rationale, which may quote the mail."""
        return str(if_readable(decision, decision.rationale))

    @display(description="Explanations")
    def why(self, decision: Decision) -> SafeString | str:
        """Return the explanations."""
        return json_block(if_readable(decision, decision.explanations))

    @display(description="Job")
    def job(self, decision: Decision) -> SafeString | str:
        """Return a link to the job that decided."""
        return job_link(decision.job_id)
