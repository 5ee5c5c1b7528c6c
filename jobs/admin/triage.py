"""The triage board: open dead letters by failure, and what can be done to each group."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse

from jobs.admin.base import LABELS
from jobs.admin.bulk_actions import BulkAction
from jobs.admin.charts import bars
from jobs.engine.clock import database_now
from jobs.queries.durations import since_in_words
from jobs.queries.filters import OPEN
from jobs.queries.groups import Group, dead_letter_groups
from jobs.queries.last_errors import error_in_words
from tenants.admin.base import sees_several_firms

FIRMS_SHOWN = 3


def triage_board(
    request: HttpRequest, actions: Sequence[tuple[BulkAction, str]], listing: str
) -> TemplateResponse:
    """Return the board, with these bulk actions and their URLs; `listing` is the list's URL."""
    now = database_now()
    groups, more = dead_letter_groups(now)
    context = {
        **admin.site.each_context(request),
        "title": "Triage board",
        "content_title": "Triage board",
        "cards": [_card(group, now) for group in groups],
        "more": more,
        "buttons": actions,
        "list": listing,
        "shows_firms": sees_several_firms(),
    }
    return TemplateResponse(request, "admin/jobs/deadletterqueue/groups.html", context)


def _card(group: Group, now: datetime) -> dict[str, Any]:
    """Return what the board shows of a group; `query` narrows the list to it."""
    named = {"q": group.fingerprint} if group.fingerprint else {}
    return {
        "group": group,
        "query": urlencode({**named, "resolution": OPEN}),
        "first": since_in_words(group.first_seen, now) if group.first_seen else "",
        "last": since_in_words(group.last_seen, now) if group.last_seen else "",
        "bars": bars(group.trend),
        "reason_label": LABELS[group.sample.reason] if group.sample else "",
        "error": error_in_words(group.sample.error_class, group.sample.error)
        if group.sample
        else "",
        "reason": group.sample.reason.replace("_", " ") if group.sample else "",
        "firms": group.firms[:FIRMS_SHOWN],
        "more_firms": max(0, len(group.firms) - FIRMS_SHOWN),
    }
