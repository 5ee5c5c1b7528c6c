"""Actions in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.admin.base import age
from mail.admin.base import (
    ACTION_STATUS_LABELS,
    MailAdmin,
    decision_link,
    job_link,
    json_block,
    message_link,
    subject_line,
)
from mail.admin.filters import ActionStatusFilter, ActionTypeFilter, CreatedFilter
from mail.models import Action
from tenants.admin.filters import FirmFilter


@admin.register(Action)
class ActionAdmin(MailAdmin):
    """What was done to messages, and how to take it back."""

    list_display = ("what", "state", "about", "account", "firm", "made", "done")
    list_select_related = ("firm", "account", "message")
    list_filter = (ActionTypeFilter, ActionStatusFilter, FirmFilter, CreatedFilter)
    search_fields = ("message__subject",)
    ordering = ("-id",)
    fields = (
        "action_type",
        "label",
        "status",
        "on",
        "reason",
        "error",
        "before",
        "undo",
        "job",
        "account",
        "created_at",
        "executed_at",
    )
    readonly_fields = ("label", "on", "reason", "before", "undo", "job")

    @display(description="Action", header=True)
    def what(self, action: Action) -> list[str]:
        """Name the action, and the label where it is about one."""
        return [action.get_action_type_display(), self.label(action)]

    @display(description="Label")
    def label(self, action: Action) -> str:
        """Name the label a label action is about."""
        return str(action.parameters.get("label", ""))

    @display(description="Status", label=ACTION_STATUS_LABELS)
    def state(self, action: Action) -> tuple[str, str]:
        """Say where it stands."""
        return action.status, action.get_status_display()

    @display(description="Message")
    def about(self, action: Action) -> str:
        """Name the message."""
        return subject_line(action.message.subject)

    @display(description="Message")
    def on(self, action: Action) -> SafeString | str:
        """Lead to the message."""
        return message_link(action.message)

    @display(description="Because of")
    def reason(self, action: Action) -> SafeString | str:
        """Lead to the decision that asked for it."""
        return decision_link(action.decision)

    @display(description="Before")
    def before(self, action: Action) -> SafeString | str:
        """Show the message's labels before it."""
        return json_block(action.pre_image)

    @display(description="Undo")
    def undo(self, action: Action) -> SafeString | str:
        """Show what taking it back would change."""
        return json_block(action.undo_hint)

    @display(description="Job")
    def job(self, action: Action) -> SafeString | str:
        """Lead to the job that executed it."""
        return job_link(action.job_id)

    @display(description="Asked for")
    def made(self, action: Action) -> str:
        """Say when it was asked for."""
        return age(action.created_at)

    @display(description="Executed")
    def done(self, action: Action) -> str:
        """Say when it was done."""
        return age(action.executed_at)
