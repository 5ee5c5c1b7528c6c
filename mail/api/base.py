"""The bases of mail's resources: errors as problem details, content for readers alone, scopes."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Case, Q, QuerySet, When
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.problems import Fault, Refusal
from interfaces.api.schema import operation
from interfaces.api.serializers import StrictSerializer, TextField
from jobs.api.views import QueueView
from mail.errors import FaultyInput, MailError
from mail.models import MAX_ADDRESS_LENGTH, MailAccount, Scope
from mail.services.mailboxes.content_access import may_read, readable
from tenants.access import access_of
from tenants.models import Role
from tenants.scope import firm_scope

FOR_READERS = "Null unless the caller may read the mailbox."


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


class ContentSerializer(FirmRowSerializer):
    """A row of a mailbox's mail; its `content` fields are null for callers who may not read it."""

    content: ClassVar[tuple[str, ...]] = ()

    def to_representation(self, row: Any) -> dict[str, Any]:
        """Return the fields; those that quote the mail only to a reader of the mailbox."""
        shown = super().to_representation(row)
        return shown if row.is_readable else {**shown, **dict.fromkeys(self.content)}


class PersonSerializer(serializers.Serializer[Any]):
    """Somebody who sends or gets mail."""

    # The defaults allow for stored addresses that lack a part.
    name = serializers.CharField(default="")
    address = serializers.CharField(default="")


class ContentView(MailView):
    """Rows of mailboxes' mail: the firm sees that they exist, only readers see what they say."""

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rows, annotated with whether the caller may read their mailbox."""
        may_read = Case(When(readable(self.request.user.pk, "account__"), then=True), default=False)
        rows: QuerySet[Any] = super().get_rows().filter(**filters).annotate(is_readable=may_read)
        return rows


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


def scoped_operation(
    operate: Callable[..., object],
    summary: str,
    description: str,
    *,
    body: type[StrictSerializer],
    answer: OpenApiResponse,
    example: OpenApiExample,
) -> Callable[..., Response]:
    """Return, as `row_operation` does, an operation for those who may change the row.

    If the body moves the row to another mailbox, they must be allowed to change that one's, too.
    """

    @operation(summary, description, answers={HTTPStatus.OK: answer}, body=body, example=example)
    def perform(self: ScopedView, _: Request, **__: UUID) -> Response:
        row, given = self.get_changeable(), self.get_body(body)
        if "account_id" in given:
            self.check_may_change(row.firm_id, given["account_id"])
        operate(row, by=self.actor, **given)
        return Response(self.represent(self.get_rows().filter(pk=row.pk).first() or row))

    return perform
