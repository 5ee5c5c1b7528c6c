"""Actions in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.http import HttpRequest
from unfold.decorators import display

from interfaces.admin.base import column
from interfaces.admin.operations import OptionalReasonForm
from jobs.admin.base import age_column
from mail.admin.account_operations import MailboxOperation
from mail.admin.base import (
    ACTION_STATUS_LABELS,
    ContentAdmin,
    action_link,
    decision_link,
    if_readable,
    json_block,
    status_column,
)
from mail.admin.filters import ActionStatusFilter, ActionTypeFilter, CreatedFilter
from mail.models import Action, ActionType, MailLabel
from mail.services.actions.actions import irreversible_reason
from mail.services.actions.label_changes import changed_labels
from mail.services.actions.undo import request_undo, undo_of, why_not_undoable
from tenants.admin.base import FirmFilter, TenantOperationsAdmin


def _effect(action: Action) -> str:
    changed = changed_labels(action.undo_hint or {})
    if not changed:
        return "The action changed nothing, so the undo changes nothing either."
    return (
        "Takes back in Gmail what the action changed. Anything that somebody has changed "
        "since then is left as it is."
    )


UNDO = MailboxOperation(
    name="undo",
    label="Undo",
    icon="undo",
    variant="primary",
    form=OptionalReasonForm,
    effect=_effect,
    obstacle=why_not_undoable,
    seen=lambda action: str(action.status),
    perform=request_undo,
    report=lambda _: "The undo was asked for. It is listed as an action of its own.",
)


def _note(action: Action) -> str:
    never = irreversible_reason(action.account, ActionType(action.action_type), action.parameters)
    return never or why_not_undoable(action) or "The action can be undone."


@admin.register(Action)
class ActionAdmin(TenantOperationsAdmin, ContentAdmin):
    """What was done to messages, and how to undo it."""

    empty_text = "Nothing was done to a message yet."
    operations = (UNDO,)
    list_display = ("what", "state", "about", "account", "firm", "made", "done")
    list_select_related = ("firm", "account", "message")
    list_filter = (ActionTypeFilter, ActionStatusFilter, FirmFilter, CreatedFilter)
    search_fields = ("message__subject",)
    search_help_text = "Words of the message's subject"
    ordering = ("-id",)
    fields = (
        "action_type",
        "label",
        "status",
        "on",
        "reason",
        "error",
        "before",
        "undo_note",
        "undone_by",
        "wake_at",
        "undo",
        "job",
        "account",
        "created_at",
        "executed_at",
    )
    undo_note = column("Can be undone", _note)
    undone_by = column("Undone by", lambda row: action_link(undo_of(row)))
    made = age_column("Asked for", "created_at")
    done = age_column("Executed", "executed_at")
    state = status_column(ACTION_STATUS_LABELS)
    reason = column("Because of", lambda row: decision_link(row.decision))
    before = column("Before", lambda row: if_readable(row, json_block(row.pre_image)))
    undo = column("Undo hint", lambda row: if_readable(row, json_block(row.undo_hint)))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Annotate each action with the name of its label, as `label_name`."""
        labels = MailLabel.objects.filter(
            account=OuterRef("account"), gmail_label_id=OuterRef("label_id")
        )
        rows: QuerySet[Any] = (
            super().get_queryset(request).annotate(label_id=KT("parameters__label"))
        )
        named: QuerySet[Any] = rows.annotate(label_name=Subquery(labels.values("name")[:1]))
        return named

    @display(description="Action", header=True)
    def what(self, action: Action) -> list[str]:
        """Return the action, and its label to a reader of the mailbox."""
        return [action.get_action_type_display(), self.label(action)]

    @display(description="Label")
    def label(self, action: Action) -> str:
        """Return a label action's label to readers only: a private mailbox's labels reveal much."""
        label = action.parameters.get("label", "")
        name = action.label_name or label  # type: ignore[attr-defined]  # annotated
        return str(if_readable(action, name)) if label else ""
