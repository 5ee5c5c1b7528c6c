"""The base of mail's resources: turns the mail app's errors into problem details."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from interfaces.api.problems import Fault, Refusal
from jobs.api.views import QueueView
from mail.errors import FaultyInput, MailError
from mail.models import MailAccount
from tenants.access import access_of
from tenants.models import Role


class FirmRowSerializer(serializers.Serializer[Any]):
    """A row of a firm."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")


class MailView(QueueView):
    """A resource of the mail app."""

    def acts_as_owner(self, account: MailAccount) -> bool:
        """Say whether the caller owns the mailbox; a key must have its user's whole role for that.

        Otherwise a key that may only look would let its bearer disconnect the mailbox.
        """
        if account.owner_id is None or account.owner_id != self.request.user.pk:
            return False
        user, firm_id = access_of(self.request.user), account.firm_id
        return all(self.access.may(role, firm_id) for role in Role if user.may(role, firm_id))

    def handle_exception(self, exc: Exception) -> Response:
        """Turn the mail app's errors into problem details."""
        if isinstance(exc, FaultyInput):
            faults = [Fault(**fault) for fault in exc.errors]
            exc = Refusal(HTTPStatus.BAD_REQUEST, exc.code, str(exc), faults)
        elif isinstance(exc, MailError):
            exc = Refusal(HTTPStatus.CONFLICT, "wrong_state", str(exc))
        return super().handle_exception(exc)
