"""The audit log in the admin, to read: for each firm's admins, and for platform staff."""

from __future__ import annotations

import json
from typing import Any, cast, get_args

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from interfaces.admin.base import clipped, code_block, column
from interfaces.admin.filters import SpanFilter, field_filter
from interfaces.stored_json import presentable
from tenants.admin.base import FirmFilter, TenantAdmin, access_in
from tenants.audit import Door, hide_private_values
from tenants.models import AuditEntry, Role

DoorFilter = field_filter("door", [(door, door) for door in get_args(Door)])


def _search(entries: QuerySet[Any], term: str) -> QuerySet[Any]:
    wanted = Q(target_id=term) | Q(actor_name=term) | Q(act=term) | Q(correlation_id=term)
    return entries.filter(wanted)


def _target(entry: AuditEntry) -> list[str]:
    return [entry.target_type.replace("_", " "), entry.target_id]


@admin.register(AuditEntry)
class AuditEntryAdmin(TenantAdmin):
    """Who did what, when, why, and what it changed."""

    empty_text = "Nobody has changed anything yet."
    list_display = ("done", "who", "act", "target", "firm", "door", "why")
    list_filter = (DoorFilter, SpanFilter, FirmFilter)
    list_select_related = ("firm",)
    search_fields = ("target_id",)
    search = staticmethod(_search)
    search_help_text = "Id of the row, actor, operation, or correlation id"
    ordering = ("-id",)
    fields = (
        "done",
        "who",
        "came_by",
        "did",
        "acted_on",
        "firm",
        "reason",
        "changes",
        "correlation_id",
    )
    # The time to the second, in UTC.
    done = column("When", lambda entry: f"{entry.created_at:%Y-%m-%d %H:%M:%S} UTC")
    target = column("Target", _target, header=True)
    acted_on = column("Target", lambda entry: " ".join(_target(entry)))
    why = column("Reason", lambda entry: clipped(entry.reason or "-"))
    # As columns, because fields of the model would show the help text of a form.
    who = column("Who", lambda entry: entry.actor_name)
    came_by = column("Door", lambda entry: entry.door)
    did = column("Act", lambda entry: entry.act)
    changes = column("Changes", lambda entry: _changes(entry.before, entry.after))

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow the admins of a firm; `get_queryset` decides which firms' entries they see."""
        return access_in(request).firms(Role.ADMIN) != []

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        """Leave out the firms in which the user is no admin."""
        entries: QuerySet[AuditEntry] = super().get_queryset(request)
        firms = access_in(request).firms(Role.ADMIN)
        return entries if firms is None else entries.filter(firm_id__in=firms)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> AuditEntry:
        """Return the entry, without the values that are not for the reader."""
        entry: Any = super().get_object(request, object_id, from_field)
        hide_private_values([entry], request.user.pk)
        return cast("AuditEntry", entry)


def _changes(before: object, after: object) -> SafeString | str:
    """Return what the act changed, a line for each value."""
    if before is None or after is None:
        return "(private)"
    was, became = presentable(before), presentable(after)
    if not isinstance(was, dict) or not isinstance(became, dict):
        return format_html("{}{}", _shown(was), _shown(became))
    lines = format_html_join(
        "",
        '<tr><th scope="row">{}</th><td data-label="Before">{}</td><td data-label="After">{}</td></tr>',
        (
            (capfirst(name.replace("_", " ")), _shown(was.get(name)), _shown(became.get(name)))
            for name in dict.fromkeys([*was, *became])
        ),
    )
    if not lines:
        return "-"
    return format_html(
        '<table class="queue-table queue-changes" aria-label="Changes"><thead><tr>'
        '<td></td><th scope="col">Before</th><th scope="col">After</th></tr></thead>'
        "<tbody>{}</tbody></table>",
        lines,
    )


def _shown(value: object) -> SafeString | str:
    if value is None or value in ("", {}, []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return code_block(json.dumps(value, ensure_ascii=False, indent=2))
    return str(value)
