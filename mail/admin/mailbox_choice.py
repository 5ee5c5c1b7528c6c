"""The form field in which a mailbox is chosen."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest

from mail.models import MailAccount
from mail.services.mailboxes.content_access import readable


class MailboxChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # generic to the checker alone
    """A mailbox whose mail the user may read; the cleaned value is its id."""

    def __init__(self, **options: Any) -> None:
        nothing = MailAccount.objects.unscoped("`offer` sets it for each form").none()
        super().__init__(nothing, label="Mailbox", **options)

    def offer(self, request: HttpRequest, row: Any) -> None:
        """Offer mailboxes that the user may read, for a row those of its firm."""
        accounts = MailAccount.objects.filter(readable(request.user.pk)).order_by("address")
        self.queryset = accounts if row is None else accounts.filter(firm_id=row.firm_id)

    def clean(self, value: Any) -> UUID | None:
        """Return the mailbox's id."""
        account = super().clean(value)
        return None if account is None else account.pk
