"""What rules and directions share over REST: their scope, and who may change them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from rest_framework import serializers

from interfaces.api.serializers import StrictSerializer, TextField
from mail.api.base import MailView
from mail.models import MAX_ADDRESS_LENGTH, MailAccount, Scope
from mail.services.mailboxes.content_access import may_read, readable
from tenants.models import Role
from tenants.scope import firm_scope


class ScopedSettings(StrictSerializer):
    """Whose mail a row is about."""

    account_id = serializers.UUIDField(required=False, allow_null=True)
    scope = serializers.ChoiceField(Scope.choices, required=False)
    scope_ref = TextField(required=False, allow_blank=True, max_length=MAX_ADDRESS_LENGTH)


class ScopedView(MailView):
    """Rows with a scope; those of one mailbox are for its readers."""

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rows; a mailbox's rows only to its readers."""
        rows = super().get_rows(**filters)
        return rows.filter(Q(account=None) | readable(self.request.user.pk, "account__"))

    def get_changeable(self) -> Any:
        """Return the row that the URL names, if the caller may change it."""
        row = self.get_object()
        self.check_may_change(row.firm_id, row.account_id)
        return row

    def check_may_change(self, firm_id: int, account_id: UUID | None) -> None:
        """Allow the mailbox's owner; others need the role admin, and must be able to read it.

        Raises:
            ValidationError: the mailbox is one whose mail the caller may not read.
        """
        user_id = self.request.user.pk
        with firm_scope(firm_id):
            account = MailAccount.objects.filter(pk=account_id).first()
            is_reader = account is None or may_read(user_id, account)
        if account is not None and self.acts_as_owner(account):
            return
        self.check_role(Role.ADMIN, firm_id)
        if not is_reader:
            message = "This is a mailbox whose mail you may not read."
            raise serializers.ValidationError({"account_id": [message]})
