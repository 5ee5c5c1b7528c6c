"""Pauses in the admin."""

from __future__ import annotations

from datetime import datetime

from django import forms
from django.contrib import admin
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from interfaces.admin.operations import Answers, OptionalReasonForm, TextAnswer
from jobs.admin.base import age, age_column, type_choices
from jobs.admin.filters import CategoryFilter, JobTypeFilter
from jobs.admin.firm_or_all import FirmOrAllAdmin, where_in_words
from jobs.admin.operations import QueueOperation
from jobs.models import Pause
from jobs.operations import limits
from jobs.states import Category
from tenants.admin.filters import FirmFilter
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.audit import Actor

STATE_LABELS = {"holds": "warning", "over": "default"}
# The formats of a browser's datetime field, and of a person who types seconds.
TIME_FORMATS = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


class PauseForm(FirmChoiceForm):
    """What to hold back, why, and until when."""

    category = forms.ChoiceField(
        required=False,
        choices=[("", "Every category"), *((word.value, word.value) for word in Category)],
        widget=UnfoldAdminSelectWidget(),
    )
    job_type = forms.ChoiceField(
        required=False,
        label="Type",
        choices=lambda: [("", "Every type"), *type_choices()],
        widget=UnfoldAdminSelectWidget(),
    )
    reason = TextAnswer(help_text="Shown with each job it holds back, and kept in the audit log.")
    until = forms.DateTimeField(
        required=False,
        label="Until (UTC)",
        input_formats=TIME_FORMATS,
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text="When it ends by itself; empty means somebody resumes it.",
    )


def _pause(_: None, answers: Answers, by: Actor) -> Pause:
    return limits.pause(
        firm=answers["firm"],
        category=answers["category"] or None,
        job_type=answers["job_type"] or None,
        reason=answers["reason"],
        until=answers["until"],
        by=by,
    )


def _report(pause: Pause) -> str:
    where = "everywhere" if pause.everywhere else f"of {pause.firm.name}"
    return f"Paused {held_in_words(pause)} {where}."


def held_in_words(pause: Pause) -> str:
    """Say what the pause holds back: "everything", "export", "mail_sync of sync"."""
    if pause.category and pause.job_type:
        return f"{pause.job_type} of {pause.category}"
    return pause.job_type or pause.category or "everything"


def is_over(until: datetime | None) -> bool:
    """Say whether a pause has ended by itself."""
    return until is not None and until <= timezone.now()


@admin.register(Pause)
class PauseAdmin(FirmOrAllAdmin):
    """The pauses: what each holds back, why, and until when."""

    operations = (
        QueueOperation(
            name="resume",
            label="Resume",
            icon="play_arrow",
            variant="primary",
            form=OptionalReasonForm,
            effect="The pause is over, and what it held back runs in its turn.",
            # A new pause reuses the row of one that is over.
            seen=lambda pause: str(pause.created_at),
            perform=lambda pause, answers, by: limits.resume(
                pause, reason=answers["reason"], by=by
            ),
            report=lambda pause: f"Resumed {held_in_words(pause)}.",
        ),
    )
    list_operations = (
        QueueOperation(
            name="new",
            label="Pause work",
            icon="pause",
            variant="primary",
            form=PauseForm,
            effect="Nothing that matches starts while the pause stands. What runs goes on to its "
            "end, and nothing is lost: jobs wait and use no attempts.",
            perform=_pause,
            report=_report,
        ),
    )
    list_display = ("held", "where", "state", "since", "ends", "paused_by", "why")
    list_filter = (CategoryFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = ("held", "where", "state", "reason", "paused_by", "created_at", "until")
    readonly_fields = ("held", "where", "state")
    since = age_column("Since", "created_at")

    def subject(self, row: Pause) -> str:
        """Say what the pause holds back, and where."""
        return f"{held_in_words(row)}: {where_in_words(row)}"

    @display(description="Paused")
    def held(self, pause: Pause) -> str:
        """Say what the pause holds back."""
        return held_in_words(pause)

    @display(description="State", label=STATE_LABELS)
    def state(self, pause: Pause) -> str:
        """Say whether it is still in force."""
        return "over" if is_over(pause.until) else "holds"

    @display(description="Ends")
    def ends(self, pause: Pause) -> str:
        """Return when it ends by itself."""
        return age(pause.until) if pause.until else "by hand"

    @display(description="Reason")
    def why(self, pause: Pause) -> SafeString:
        """Return the reason, cut to a line."""
        return format_html('<span class="queue-clip" title="{0}">{0}</span>', pause.reason)
