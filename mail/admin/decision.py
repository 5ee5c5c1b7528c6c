"""Decisions in the admin."""

from __future__ import annotations

from django.contrib import admin

from interfaces.admin.base import column
from jobs.admin.base import age_column
from mail.admin.base import (
    CATEGORY_LABELS,
    ContentAdmin,
    if_readable,
    json_block,
)
from mail.admin.filters import CategoryFilter, CreatedFilter, SourceFilter
from mail.models import Decision
from tenants.admin.base import FirmFilter


@admin.register(Decision)
class DecisionAdmin(ContentAdmin):
    """Decisions about messages, with their source and reasons."""

    empty_text = "No message was judged yet."
    list_display = ("about", "verdict", "certainty", "source", "account", "firm", "created")
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
    created = age_column("Created", "created_at")
    verdict = column(
        "Category", lambda row: (row.category, row.get_category_display()), label=CATEGORY_LABELS
    )
    certainty = column(
        "Confidence",
        lambda row: f"{row.confidence:.0%}" + ("" if row.labelled else ", not labelled"),
    )
    reasoning = column("Rationale", lambda row: if_readable(row, row.rationale))
    why = column("Explanations", lambda row: json_block(if_readable(row, row.explanations)))
