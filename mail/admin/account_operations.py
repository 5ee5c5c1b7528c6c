"""Operations on mailboxes in the admin: connect, switch modes, pause, grant, disconnect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.http import HttpRequest

from interfaces.admin.operations import (
    Operation,
    OperationForm,
    OperationRefused,
    OptionalReasonForm,
    ReasonForm,
)
from mail.admin.consent import CONNECT_ROLE, ConnectForm
from mail.conf import label_backlog_days, uses_google
from mail.errors import MailError
from mail.gmail.oauth import REQUIRED_SCOPES
from mail.models import Connection, ContentGrant, MailAccount, Mode, PausedBy
from mail.services.mailboxes import content_access, modes
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.reminders.follow_ups import MAX_DAYS as MAX_FOLLOW_UP_DAYS
from mail.services.reminders.follow_ups import NO_OWNER, set_follow_ups
from tenants.models import Membership, Role

NO_GOOGLE = "Mailboxes are in the local Gmail: GMAIL_BACKEND is simulator."
MAX_KEEP_DAYS = 3650


@dataclass(frozen=True, kw_only=True)
class MailboxOperation(Operation):
    """An operation that calls a service of the mail app."""

    # Whether only the owner may do it, or somebody with the role `stand_in`, which may be empty.
    for_owner: bool = False
    stand_in: str = ""

    def run(self, row: Any, answers: Any, by: Any) -> Any:
        """Call the service.

        Raises:
            OperationRefused: the service refuses it.
        """
        try:
            return super().run(row, answers, by)
        except MailError as error:
            raise OperationRefused(str(error)) from error


class DisconnectForm(ReasonForm):
    """What happens to the stored mail."""

    keep = forms.ChoiceField(
        label="Stored mail",
        choices=[("now", "Delete it now"), ("days", "Keep it for some days")],
        initial="days",
    )
    keep_days = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_KEEP_DAYS, initial=30, label="Days"
    )
    field_order = ["keep", "keep_days", "reason"]

    def clean(self) -> dict[str, Any]:
        """Return the days as a number; 0 means now."""
        answers = self.cleaned_data
        if answers.pop("keep", "days") == "now":
            answers["keep_days"] = 0
        elif not answers.get("keep_days"):
            self.add_error("keep_days", "Say for how many days.")
        return answers


class FollowUpsForm(OptionalReasonForm):
    """After how many days the owner is reminded."""

    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_FOLLOW_UP_DAYS,
        label="Days without an answer",
        help_text="Empty: no follow-up reminders.",
    )
    field_order = ["days", "reason"]

    def prepare(self, request: HttpRequest, row: MailAccount) -> None:
        """Set the current number of days."""
        super().prepare(request, row)
        self.initial["days"] = row.follow_up_days


class MemberForm(OptionalReasonForm):
    """A member of the firm."""

    user = forms.ModelChoiceField(queryset=get_user_model().objects.none(), label="Person")
    field_order = ["user", "reason"]

    def prepare(self, request: HttpRequest, row: MailAccount) -> None:
        """Offer the firm's members without the owner."""
        members = Membership.objects.filter(firm_id=row.firm_id).values("user_id")
        people = get_user_model().objects.filter(pk__in=members).exclude(pk=row.owner_id or 0)
        self.fields["user"].queryset = people.order_by("pk")  # type: ignore[attr-defined]


class ReaderForm(MemberForm):
    """A person who has a grant to read the mail."""

    def prepare(self, request: HttpRequest, row: MailAccount) -> None:
        """Offer those who have a grant."""
        granted = ContentGrant.objects.filter(account=row).values("user_id")
        people = get_user_model().objects.filter(pk__in=granted)
        self.fields["user"].queryset = people.order_by("pk")  # type: ignore[attr-defined]


def _seen(account: MailAccount) -> str:
    return f"{account.connection} {account.mode} {account.paused_by}"


def _consent_text(_: Any = None) -> str:
    asked = " ".join(f"{scope.rpartition('/')[2]}: {why}" for scope, why in REQUIRED_SCOPES.items())
    return (
        "Google will ask you to let Mailroom into a mailbox, and then sends you back here. "
        f"It asks for one permission. {asked} The mailbox starts in suggest-only mode: decisions "
        "are shown here, and nothing is written to Gmail until you make it active. Its mail is "
        "readable to you alone, until you grant it to others."
    )


def _without_google(_: Any) -> str:
    return "" if uses_google() else NO_GOOGLE


def _state(account: MailAccount) -> str:
    paused = f", {account.get_paused_by_display().lower()}" if account.paused_by else ""
    return f"{account.address}: {account.get_mode_display().lower()}{paused}."


def _follow_ups(account: MailAccount) -> str:
    days = account.follow_up_days
    if days is None:
        return f"{account.address}: no follow-up reminders."
    return f"{account.address}: reminders after {days} {'day' if days == 1 else 'days'}."


CONNECT = MailboxOperation(
    name="connect",
    label="Connect a Gmail mailbox",
    icon="add_link",
    variant="primary",
    role=CONNECT_ROLE,
    form=ConnectForm,
    effect=_consent_text,
    obstacle=_without_google,
    perform=lambda firm, **_: firm,
    report=str,
)
RECONNECT = MailboxOperation(
    name="reconnect",
    label="Connect again",
    icon="link",
    role=CONNECT_ROLE,
    form=OperationForm,
    effect=_consent_text,
    obstacle=_without_google,
    seen=_seen,
    perform=lambda account, **_: account,
    report=_state,
)
ROW_OPERATIONS = (
    MailboxOperation(
        name="activate",
        label="Make active",
        icon="play_arrow",
        for_owner=True,
        stand_in=Role.ADMIN,
        form=OptionalReasonForm,
        effect=lambda _: (
            "From now on decisions are shown in Gmail as labels. Mail of the last "
            f"{label_backlog_days()} days is labelled too, and nothing older."
        ),
        obstacle=lambda account: "It is active." if account.mode == Mode.ACTIVE else "",
        seen=_seen,
        perform=modes.activate,
        report=_state,
    ),
    MailboxOperation(
        name="suggest-only",
        label="Suggest only",
        icon="visibility",
        form=OptionalReasonForm,
        effect="Nothing more is written to Gmail. Labels that are already there stay.",
        obstacle=lambda account: "It is suggest-only." if account.mode == Mode.SUGGEST else "",
        seen=_seen,
        perform=modes.suggest_only,
        report=_state,
    ),
    MailboxOperation(
        name="pause",
        label="Pause",
        icon="pause",
        form=OptionalReasonForm,
        effect="Until it is resumed, nothing is written to Gmail: changes asked for wait.",
        obstacle=lambda account: "It is paused." if account.paused_by else "",
        seen=_seen,
        perform=modes.pause_mailbox,
        report=_state,
    ),
    MailboxOperation(
        name="resume",
        label="Resume",
        icon="resume",
        form=OptionalReasonForm,
        effect="Changes that wait are written to Gmail. While a message carries the pause label, "
        "the next sync pauses the mailbox again.",
        obstacle=lambda account: (
            "It is not paused." if account.paused_by == PausedBy.NOTHING else ""
        ),
        seen=_seen,
        perform=modes.resume_writing,
        report=_state,
    ),
    RECONNECT,
    MailboxOperation(
        name="follow-ups",
        label="Follow-ups",
        icon="alarm",
        role=Role.VIEWER,
        for_owner=True,
        stand_in=Role.ADMIN,
        form=FollowUpsForm,
        effect="The owner is reminded once of each message of theirs that asks something and "
        "that nobody answered for so many days. Mail to lists and programs does not count.",
        obstacle=lambda account: "" if account.owner_id else NO_OWNER,
        perform=set_follow_ups,
        report=_follow_ups,
    ),
    MailboxOperation(
        name="grant",
        label="Let somebody read it",
        icon="person_add",
        role=Role.VIEWER,
        for_owner=True,
        form=MemberForm,
        effect="The person can read this mailbox's mail until you withdraw the grant.",
        perform=content_access.grant_content,
        report=lambda account: f"{account.address} has one more reader.",
    ),
    MailboxOperation(
        name="withdraw",
        label="Withdraw a grant",
        icon="person_remove",
        role=Role.VIEWER,
        for_owner=True,
        stand_in=Role.ADMIN,
        form=ReaderForm,
        effect="The person can no longer read this mailbox's mail.",
        perform=content_access.withdraw_content,
        report=lambda account: f"{account.address} has one reader less.",
    ),
    MailboxOperation(
        name="break-glass",
        label="Break glass",
        icon="emergency",
        variant="danger",
        role=Role.ADMIN,
        effect="You can read somebody else's mail for an hour. The audit log records this and "
        "your reason; the owner sees it on this page.",
        obstacle=lambda account: "Every member can read this mailbox." if account.shared else "",
        perform=content_access.break_glass,
        report=lambda account: f"You can read {account.address} for an hour.",
    ),
    MailboxOperation(
        name="disconnect",
        label="Disconnect",
        icon="link_off",
        variant="danger",
        for_owner=True,
        stand_in=Role.ADMIN,
        form=DisconnectForm,
        effect="Mailroom stops using the mailbox and has Google withdraw the permission. Jobs "
        "that wait are canceled. Labels in Gmail stay. Snoozed messages stay out of the "
        "inbox until the mailbox is connected again: undo those snoozes first.",
        obstacle=lambda account: (
            "It is disconnected." if account.connection == Connection.DISCONNECTED else ""
        ),
        seen=_seen,
        perform=disconnect_account,
        report=lambda account: f"Disconnected {account.address}.",
    ),
)
