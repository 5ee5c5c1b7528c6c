"""Pauses in the admin; each holds for one firm or for every firm."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from unfold.widgets import UnfoldAdminTextInputWidget

from interfaces.admin.base import clipped, column
from interfaces.admin.operations import OptionalReasonForm, TextAnswer
from interfaces.admin.time_answer import TimeAnswer
from jobs.admin.base import LABELS, QueueOperation, age, age_column, page_time, type_choices
from jobs.admin.filters import CategoryFilter, JobTypeFilter
from jobs.admin.limits import LimitAdmin, where
from jobs.models import Pause
from jobs.models.base import choices
from jobs.models.limits import MAX_KEY_LENGTH
from jobs.operations import limits
from jobs.states import Category
from tenants.admin.base import FirmFilter
from tenants.admin.firm_choice import FirmChoiceForm


class PauseForm(FirmChoiceForm):
    """What to hold back, why, and until when."""

    category = forms.TypedChoiceField(
        required=False,
        empty_value=None,
        choices=[("", "Every category"), *choices(Category)],
    )
    job_type = forms.TypedChoiceField(
        required=False,
        empty_value=None,
        label="Type",
        choices=lambda: [("", "Every type"), *type_choices()],
    )
    limit_key = forms.CharField(
        required=False,
        empty_value=None,
        max_length=MAX_KEY_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        help_text="For example a mailbox's key; a job's page shows its limit key. Leave empty for "
        "every job.",
    )
    reason = TextAnswer(help_text="Shown with each job it holds back, and kept in the audit log.")
    until = TimeAnswer(
        required=False,
        label="Until (UTC)",
        help_text="The pause ends by itself at this time. Leave empty to end it by hand.",
    )


def subject_of(pause: Pause) -> str:
    """Return what is paused: "everything", "category export", "type sync in category sync"."""
    parts = {"type": pause.job_type, "category": pause.category}
    named = [f"{what} {value}" for what, value in parts.items() if value]
    key = f" with limit key {pause.limit_key}" if pause.limit_key else ""
    return (" in ".join(named) or "everything") + key


def _pause_state(pause: Pause) -> str:
    return "over" if pause.until is not None and pause.until <= page_time() else "holds"


@admin.register(Pause)
class PauseAdmin(LimitAdmin):
    """The pauses: what each holds back, why, and until when."""

    operations = (
        QueueOperation(
            name="resume",
            label="Resume",
            icon="play_arrow",
            variant="primary",
            form=OptionalReasonForm,
            effect="The pause ends, and the jobs that it held back may start.",
            # A new pause reuses the row of one that is over.
            seen=lambda pause: str(pause.created_at),
            perform=limits.resume,
            report=lambda pause: f"Resumed {subject_of(pause)}.",
        ),
    )
    list_operations = (
        QueueOperation(
            name="new",
            label="Pause work",
            icon="pause",
            variant="primary",
            form=PauseForm,
            effect="No matching job starts during the pause. Running jobs go on to their end. "
            "Waiting jobs are kept and use no attempts.",
            perform=limits.pause,
            report=lambda pause: (
                f"Paused {subject_of(pause)} "
                f"{'everywhere' if pause.everywhere else f'of {pause.firm.name}'}."
            ),
        ),
    )
    empty_text = "Nothing is paused."
    list_display = ("held", "where", "state", "since", "ends", "paused_by", "why")
    list_filter = (CategoryFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = ("held", "where", "state", "reason", "paused_by", "created_at", "until")
    held = column("Paused", subject_of)
    state = column("State", _pause_state, label=LABELS)
    since = age_column("Since", "created_at")
    ends = column("Ends", lambda pause: age(pause.until) if pause.until else "by hand")
    why = column("Reason", lambda pause: clipped(pause.reason))

    def subject(self, row: Pause) -> str:
        """Say what the pause holds back, and where."""
        return f"{subject_of(row)}: {where(row)}"
