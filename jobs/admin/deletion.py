"""Deletes firms and users in the admin, after a typed confirmation."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest

from interfaces.admin.operations import ReasonForm
from jobs.admin.base import QueueOperation
from jobs.operations import deletion
from tenants.admin.firm import FirmAdmin
from tenants.admin.user import UserAdmin
from tenants.models import Firm


class ConfirmForm(ReasonForm):
    """A reason, and the name of what is deleted, typed once more."""

    confirmation = forms.CharField(max_length=254)
    field_order: tuple[str, ...] = ("confirmation", "reason")

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Name what has to be typed."""
        self._name = _name(row)
        self.fields["confirmation"].label = f"Type {self._name} to confirm"

    def clean(self) -> dict[str, Any]:
        """Return the reason, once the name is typed."""
        answers: dict[str, Any] = super().clean() or {}
        typed = answers.pop("confirmation", None)
        if typed is not None and typed.strip() != self._name:
            self.add_error("confirmation", f"Type exactly: {self._name}")
        return answers


class DeleteFirmForm(ConfirmForm):
    """The same, and whether the firm is exported before."""

    export_first = forms.BooleanField(
        required=False,
        initial=True,
        label="Export it first",
        help_text="The ZIP file stays among the system firm's data requests for a week.",
    )
    field_order = ("export_first", "confirmation", "reason")

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer the export where an app exports firms."""
        super().prepare(request, row)
        if not deletion.exports_firms():
            del self.fields["export_first"]


def _name(row: Any) -> str:
    return row.slug if isinstance(row, Firm) else row.get_username()


DELETE_FIRM = QueueOperation(
    name="delete",
    label="Delete the firm",
    icon="delete_forever",
    variant="danger",
    role="admin",
    form=DeleteFirmForm,
    effect="Everything the firm owns is deleted for good: jobs, mailboxes, mail, schedules, "
    "memberships, keys. The firm becomes inactive at once, and its running jobs are asked to "
    "stop. The audit log stays.",
    obstacle=lambda firm: "The system firm cannot be deleted." if firm.is_system else "",
    perform=deletion.delete_firm,
    report=lambda firm: f"{firm.name} is being deleted; a job of the system firm does it.",
)
DELETE_USER = QueueOperation(
    name="delete",
    label="Delete the user",
    icon="delete_forever",
    variant="danger",
    role="admin",
    form=ConfirmForm,
    effect="The account is deleted for good, with its memberships, its API keys and the jobs on "
    "the user's behalf; running ones are asked to stop. What the user did stays in the audit log.",
    perform=deletion.delete_user,
    report=lambda user: f"{user} is being deleted; a job of the system firm does it.",
)

FirmAdmin.operations = (*FirmAdmin.operations, DELETE_FIRM)
UserAdmin.operations = (DELETE_USER,)
