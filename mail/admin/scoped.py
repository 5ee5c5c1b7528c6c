"""The bases of pages with scoped rows, such as rules, and with rows of one person."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from interfaces.admin.operations import Operation, OperationForm, OperationRefused
from mail.admin.base import MailAdmin
from mail.models import MAX_ADDRESS_LENGTH, MailAccount, Scope
from mail.services.mailboxes.content_access import readable
from tenants.access import access_of
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.admin.firm_choice import SingleFirmForm
from tenants.models import Firm, Role

T = TypeVar("T")


def may_make(firm: Firm, account_id: UUID | None, by: Any) -> None:
    """Allow the mailbox's owner; everybody else needs the role admin.

    Raises:
        OperationRefused: the actor is neither.
    """
    own = MailAccount.objects.filter(pk=account_id, firm=firm, owner_id=by.user_id)
    if account_id is not None and own.exists():
        return
    if not access_of(by.user).may(Role.ADMIN, firm.pk):
        message = "This is for the owner of the mailbox, or an admin of the firm."
        raise OperationRefused(message, field="account_id", status=HTTPStatus.FORBIDDEN)


def may_make_any(request: HttpRequest) -> bool:
    """Say whether `may_make` allows the user anything, so that showing a form makes sense."""
    if access_in(request).firms(Role.ADMIN) != []:
        return True
    return MailAccount.objects.filter(owner_id=request.user.pk).exists()


def checked_move(change: Callable[..., T]) -> Callable[..., T]:
    """Wrap a service's change: a move to another mailbox, or to all, needs `may_make` there."""

    def perform(row: Any, *, by: Any, **settings: Any) -> T:
        moved_to = settings.get("account_id", row.account_id)
        if moved_to != row.account_id:
            may_make(row.firm, moved_to, by)
        return change(row, by=by, **settings)

    return perform


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


class ScopeFields(OperationForm):
    """The scope of a row: whose mail it applies to."""

    account_id = MailboxChoice(required=False, empty_label="Every mailbox of the firm")
    scope = forms.ChoiceField(choices=Scope.choices, label="Holds for")
    scope_ref = forms.CharField(
        required=False,
        max_length=MAX_ADDRESS_LENGTH,
        label="Domain or sender",
        help_text="For mail from one domain or one sender: that domain or address.",
    )

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer the mailboxes whose mail the user may read."""
        super().prepare(request, row)
        self.fields["account_id"].offer(request, row)  # type: ignore[attr-defined]


class NewScopedForm(SingleFirmForm):
    """The firm of a new row; which role is needed depends on the mailbox, so any may choose."""

    role = Role.VIEWER


class ScopedAdmin(TenantOperationsAdmin, MailAdmin):
    """Rows with a scope; only readers of a mailbox see its rows."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out rows of mailboxes whose mail the user may not read."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(Q(account=None) | readable(request.user.pk, "account__"))

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow the mailbox's owner, too; for a new row, anybody who may make some row."""
        if row is None:
            return super().may(request, operation) and may_make_any(request)
        owner = None if row.account is None else row.account.owner_id
        if owner is not None and owner == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return super().may(request, operation, row)


class PersonalAdmin(TenantOperationsAdmin, MailAdmin):
    """Rows of one person (`user_id`), who may change them; an admin may only end them."""

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow the person everything, and an admin every operation but the edit."""
        if row is None:
            return super().may(request, operation, row)
        if row.user_id == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return operation.name != "edit" and super().may(request, operation, row)
