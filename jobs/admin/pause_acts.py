"""Pausing work and resuming it in the admin."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from jobs.admin.base import type_choices
from jobs.admin.everywhere import FirmOrAllAct
from jobs.admin.refusals import refusals
from jobs.models import Pause
from jobs.operations import limits
from jobs.states import Category
from tenants.access import Access
from tenants.admin.acts import Answers, OptionalReasonForm, TextAnswer
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.admin.list_acts import ListAct
from tenants.audit import Actor
from tenants.models import Role

# What a browser's own field for a time sends; seconds where somebody typed them.
_TIME_FORMATS = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


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
        input_formats=_TIME_FORMATS,
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text="When it ends by itself; empty means somebody resumes it.",
    )

    def __init__(self, access: Access, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(access, Role.OPERATOR, data)


class PauseWork(ListAct):
    """Holds work back."""

    name = "new"
    label = "Pause work"
    icon = "pause"
    text = (
        "Nothing that matches starts while the pause stands. What runs goes on to its end, and "
        "nothing is lost: jobs wait and use no attempts."
    )

    def form(self, access: Access, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask for what to hold back, and why."""
        return PauseForm(access, data)

    def perform(self, answers: Answers, by: Actor) -> str:
        """Pause."""
        with refusals():
            pause = limits.pause(
                firm=answers["firm"],
                category=answers["category"] or None,
                job_type=answers["job_type"] or None,
                reason=answers["reason"],
                until=answers["until"],
                by=by,
            )
        where = "everywhere" if pause.everywhere else f"of {answers['firm'].name}"
        return f"Paused {held_in_words(pause)} {where}."


class ResumeWork(FirmOrAllAct):
    """Ends a pause."""

    name = "resume"
    label = "Resume"
    done = "resumed"
    icon = "play_arrow"
    variant = "primary"
    form_class = OptionalReasonForm

    def consequence(self, row: Pause | None) -> str:
        """Say what begins."""
        return "The pause is over, and what it held back runs in its turn."

    def seen(self, row: Pause) -> str:
        """Rest on when it was paused: the row is used again when its pause is over."""
        return str(row.created_at)

    def perform(self, row: Pause, answers: Answers, by: Actor) -> None:
        """End the pause."""
        with refusals():
            limits.resume(row, reason=answers["reason"], by=by)

    def told(self, row: Pause) -> str:
        """Say that it is over."""
        return f"Resumed {held_in_words(row)}."


def held_in_words(pause: Pause) -> str:
    """Say what the pause holds back: "everything", "export", "mail_sync of sync"."""
    if pause.category and pause.job_type:
        return f"{pause.job_type} of {pause.category}"
    return pause.job_type or pause.category or "everything"


def is_over(until: datetime | None) -> bool:
    """Say whether a pause has ended by itself."""
    return until is not None and until <= timezone.now()
