"""How people want to be notified, in the admin: their own, and an admin's view of the firm's."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextInputWidget

from interfaces.admin.base import column
from interfaces.admin.operations import OperationForm, OptionalReasonForm
from jobs.admin.base import age_column, exact
from jobs.models.notifications import MAX_TARGET_LENGTH
from mail.admin.operation import ChangeRow, MailOperation, NewRow, changed_at
from mail.admin.scoped import NewScopedForm, PersonalAdmin
from mail.models import NotificationPreference
from mail.models.recurring import MAX_ZONE_LENGTH
from mail.services.reminders import preferences
from tenants.admin.base import FirmFilter, access_in
from tenants.models import Firm, Role


class TimeOfDayAnswer(forms.TimeField):
    """A time of day."""

    def __init__(self, **options: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"type": "time"})
        super().__init__(required=False, widget=widget, **options)


class PreferenceForm(OperationForm):
    """A preference's settings."""

    time_zone = forms.CharField(
        initial="UTC",
        max_length=MAX_ZONE_LENGTH,
        help_text="Your time zone, such as Europe/Vienna.",
    )
    quiet_from = TimeOfDayAnswer(help_text="From this time of day on nothing is delivered.")
    quiet_until = TimeOfDayAnswer(help_text="At this time of day whatever waited is delivered.")
    digest_at = TimeOfDayAnswer(
        label="Daily digest at",
        help_text="At this time of day you get a digest of what waits in your mailboxes. Empty: no "
        "digest.",
    )
    email = forms.BooleanField(
        required=False, initial=True, label="By e-mail", help_text="To the address of your account."
    )
    discord_webhook = forms.CharField(
        required=False,
        empty_value=None,
        max_length=MAX_TARGET_LENGTH,
        label="Discord webhook",
        help_text="The webhook's URL. It is stored encrypted, and shown to nobody.",
    )


_FIELDS = tuple(PreferenceForm.base_fields)


class NewPreferenceForm(NewScopedForm, PreferenceForm):
    """The firm, and the settings."""

    field_order = ("firm", *_FIELDS)


class ChangePreferenceForm(OptionalReasonForm, PreferenceForm):
    """A preference's settings, and the reason of the change."""

    from_row = preferences.SETTINGS
    no_discord = forms.BooleanField(required=False, label="Remove the Discord webhook")
    field_order = (*_FIELDS, "no_discord", "reason")

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Say that without a new webhook the stored one stays."""
        super().prepare(request, row)
        if row.discord_webhook:
            self.fields["discord_webhook"].help_text = "Empty: the stored webhook is kept."
        else:
            del self.fields["no_discord"]

    def clean(self) -> dict[str, Any]:
        """Translate "remove" into the empty webhook that the service expects."""
        answers: dict[str, Any] = super().clean() or self.cleaned_data
        if answers.pop("no_discord", False):
            if answers.get("discord_webhook"):
                self.add_error("no_discord", "Either remove it, or enter another one.")
            answers["discord_webhook"] = ""
        return answers


def _create(*, firm: Firm, by: Any, **settings: Any) -> NotificationPreference:
    return preferences.create_preference(firm.pk, by.user_id, by=by, **settings)


def _change(row: NotificationPreference, *, by: Any, **settings: Any) -> NotificationPreference:
    return preferences.change_preference(row.firm_id, row.user_id, by=by, **settings)


NEW = NewRow(
    label="New preferences",
    role=Role.VIEWER,
    form=NewPreferenceForm,
    effect="The settings apply to reminders and digests that are delivered to you from now on.",
    perform=_create,
    report=lambda _: "Your preferences are stored.",
)
OPERATIONS = (
    ChangeRow(
        variant="primary",
        form=ChangePreferenceForm,
        effect="The change applies to reminders and digests that are delivered from now on, "
        "including those that already wait.",
        perform=_change,
        report=lambda _: "Your preferences are changed.",
    ),
    MailOperation(
        name="reset",
        label="Reset",
        icon="restart_alt",
        form=OptionalReasonForm,
        effect="The preferences are deleted. The person is then notified by e-mail at any time, "
        "and gets no digest.",
        seen=changed_at,
        perform=preferences.reset_preference,
        report=lambda _: "The preferences are reset.",
    ),
)


def _quiet(row: NotificationPreference) -> str:
    if row.quiet_from is None or row.quiet_until is None:
        return "-"
    return f"{row.quiet_from:%H:%M} to {row.quiet_until:%H:%M}"


def _digest(row: NotificationPreference) -> str:
    return "-" if row.digest_at is None else f"Daily at {row.digest_at:%H:%M}"


def _ways(row: NotificationPreference) -> str:
    ways = [("E-mail", row.email), ("Discord", bool(row.discord_webhook))]
    return ", ".join(way for way, used in ways if used) or "Not at all"


@admin.register(NotificationPreference)
class NotificationPreferenceAdmin(PersonalAdmin):
    """How people want to be notified."""

    list_operations = (NEW,)
    operations = OPERATIONS
    list_display = ("user", "ways", "quiet", "digest", "time_zone", "firm", "changed")
    list_select_related = ("firm", "user")
    list_filter = (FirmFilter,)
    ordering = ("-id",)
    fields = (
        "user",
        "ways",
        "quiet",
        "digest",
        "next_digest",
        "time_zone",
        "firm",
        "changed_at",
    )
    ways = column("Notified by", _ways)
    quiet = column("Quiet hours", _quiet)
    digest = column("Digest", _digest)
    next_digest = column("Next digest", lambda row: exact(row.due_at))
    changed = age_column("Changed", "changed_at")
    empty_text = "You are notified by e-mail, at any time."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Show people their own preferences, and admins those of their firms."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return preferences.visible(rows, request.user.pk, access_in(request).firms(Role.ADMIN))
