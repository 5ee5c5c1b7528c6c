"""What the pages of rules and directions share: their scope, their operations, who may use them."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from interfaces.admin.operations import Operation, OperationForm, OperationRefused
from mail.admin.base import MailAdmin
from mail.errors import FaultyInput, MailError
from mail.models import MAX_ADDRESS_LENGTH, MailAccount, Scope
from mail.services.mailboxes.content_access import readable
from tenants.access import access_of
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.admin.firm_choice import SingleFirmForm
from tenants.models import Firm, Role


@dataclass(frozen=True, kw_only=True)
class RuleOperation(Operation):
    """An operation of `mail.services.rules.operations`."""

    role: str = Role.ADMIN

    def run(self, row: Any, answers: Any, by: Any) -> Any:
        """Perform it.

        Raises:
            OperationRefused: the service refuses it; it names the form's field at fault.
        """
        try:
            return super().run(row, answers, by)
        except FaultyInput as error:
            fields = {fault["field"].partition(".")[0] for fault in error.errors}
            field = fields.pop() if len(fields) == 1 else None
            lines = [f"{fault['field']} {fault['message']}" for fault in error.errors]
            raise OperationRefused(*lines, field=field, status=HTTPStatus.BAD_REQUEST) from error
        except MailError as error:
            raise OperationRefused(str(error)) from error


def may_make(firm: Firm, account_id: UUID | None, by: Any) -> None:
    """Let the mailbox's owner pass; everybody else needs the role admin.

    Raises:
        OperationRefused: the actor is neither.
    """
    own = MailAccount.objects.filter(pk=account_id, firm=firm, owner_id=by.user_id)
    if account_id is not None and own.exists():
        return
    if not access_of(by.user).may(Role.ADMIN, firm.pk):
        message = "This is for the owner of the mailbox, or an admin of the firm."
        raise OperationRefused(message, field="account_id", status=HTTPStatus.FORBIDDEN)


class ScopeFields(OperationForm):
    """Whose mail a row is about."""

    account_id = forms.ModelChoiceField(
        queryset=MailAccount.objects.unscoped("set for each form").none(),
        required=False,
        label="Mailbox",
        empty_label="Every mailbox of the firm",
    )
    scope = forms.ChoiceField(choices=Scope.choices, label="Holds for")
    scope_ref = forms.CharField(
        required=False,
        max_length=MAX_ADDRESS_LENGTH,
        label="Domain or sender",
        help_text="Where it holds for mail from one domain or one sender: which.",
    )

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer the mailboxes whose mail the user may read."""
        super().prepare(request, row)
        accounts = MailAccount.objects.filter(readable(request.user.pk)).order_by("address")
        if row is not None:
            accounts = accounts.filter(firm_id=row.firm_id)
        self.fields["account_id"].queryset = accounts  # type: ignore[attr-defined]

    def clean_account_id(self) -> UUID | None:
        """Return the mailbox's id."""
        account = self.cleaned_data["account_id"]
        return None if account is None else account.pk


class NewScopedForm(SingleFirmForm):
    """The firm of a new row; what its role must be depends on the mailbox."""

    role = Role.VIEWER


class ScopedAdmin(TenantOperationsAdmin, MailAdmin):
    """Rows with a scope; those of one mailbox are for its readers."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out what is about mailboxes whose mail the user may not read."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(Q(account=None) | readable(request.user.pk, "account__"))

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow the owner of the mailbox besides who has the role."""
        owner = None if row is None or row.account is None else row.account.owner_id
        if owner is not None and owner == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return super().may(request, operation, row)

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Return to the list from a row that is gone."""
        if operation.name != "remove":
            return super().respond(request, operation, row, made)
        messages.success(request, operation.report(row))
        return HttpResponseRedirect(self.address("changelist"))
