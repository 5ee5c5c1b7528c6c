"""Pauses in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.admin.base import age
from jobs.admin.everywhere import FirmOrAllAdmin, where_in_words
from jobs.admin.filters import CategoryFilter, FirmFilter, JobTypeFilter
from jobs.admin.pause_acts import PauseWork, ResumeWork, held_in_words, is_over
from jobs.models import Pause

STATE_LABELS = {"holds": "warning", "over": "default"}


@admin.register(Pause)
class PauseAdmin(FirmOrAllAdmin):
    """What is held back, since when, why, until when."""

    acts = (ResumeWork(),)
    list_acts = (PauseWork(),)
    list_select_related = ("firm",)
    list_display = ("held", "where", "state", "since", "ends", "paused_by", "why")
    list_filter = (CategoryFilter, JobTypeFilter, FirmFilter)
    ordering = ("-id",)
    fields = ("held", "where", "state", "reason", "paused_by", "created_at", "until")
    readonly_fields = ("held", "where", "state")

    def subject(self, row: Pause) -> str:
        """Name what is held back, and where."""
        return f"{held_in_words(row)}: {where_in_words(row)}"

    def after_act(self, row: Pause) -> str:
        """Return to the list: the pause is gone."""
        return reverse("admin:jobs_pause_changelist")

    @display(description="Paused")
    def held(self, pause: Pause) -> str:
        """Name what is held back."""
        return held_in_words(pause)

    @display(description="State", label=STATE_LABELS)
    def state(self, pause: Pause) -> str:
        """Say whether it still holds anything back."""
        return "over" if is_over(pause.until) else "holds"

    @display(description="Since")
    def since(self, pause: Pause) -> str:
        """Say when it was paused."""
        return age(pause.created_at)

    @display(description="Ends")
    def ends(self, pause: Pause) -> str:
        """Say when it ends by itself."""
        return age(pause.until) if pause.until else "by hand"

    @display(description="Reason")
    def why(self, pause: Pause) -> SafeString:
        """Show the reason, cut to a line."""
        return format_html('<span class="queue-clip" title="{0}">{0}</span>', pause.reason)
