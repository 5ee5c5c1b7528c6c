"""The base of the admin pages of firms' rows: what a user may see and do there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import ParameterRefused, ReadOnlyAdmin, column, name_cell
from interfaces.admin.filters import TermFilter, field_filter, flag_filter
from interfaces.admin.operations import Operation, OperationsAdmin
from tenants.access import Access, access_of
from tenants.audit import Actor
from tenants.models import Firm, Role
from tenants.scope import current_scope, require_scope

_ACCESS = "firm_access"
ActiveFilter = flag_filter("active")
RoleFilter = field_filter("role", Role.choices)


@display(description="Firm")
def firm(row: Any) -> SafeString:
    """Return the row's firm, for a list."""
    return name_cell(row.firm)


class TenantAdmin(ReadOnlyAdmin):
    """Lists and pages to read, for platform staff and for members of a firm.

    The request's tenant scope decides which rows there are; the others answer 404.
    """

    # Columns that only users who see several firms need.
    firm_columns: Sequence[str] = ("firm",)
    user_name = column("User", lambda row: str(row.user))

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow users who see at least one firm."""
        scope = current_scope()
        return scope is not None and scope.firm_ids != frozenset()

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Allow users who may view."""
        return self.has_view_permission(request)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Show the firm to users who see several."""
        hidden = () if sees_several_firms() else self.firm_columns
        shown = [name for name in super().get_list_display(request) if name not in hidden]
        return [firm if name == "firm" else name for name in shown]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Show a row's user without Django's link: only platform staff may open its page."""
        fields = super().get_fields(request, obj)
        if access_in(request).is_platform_staff:
            return list(fields)
        return ["user_name" if name == "user" else name for name in fields]


class TenantOperationsAdmin(TenantAdmin, OperationsAdmin):
    """Such pages with operations, allowed by the user's role in the row's firm."""

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Compare the role that the operation needs with the user's."""
        needed, access = Role(operation.role), access_in(request)
        return access.firms(needed) != [] if row is None else access.may(needed, row.firm_id)

    def actor(self, request: HttpRequest) -> Actor:
        """Return the request's user."""
        return actor_in(request)


def actor_in(request: HttpRequest) -> Actor:
    """Return the request's user as the audit log names them."""
    return Actor("admin", cast("AbstractBaseUser", request.user))


def access_in(request: HttpRequest) -> Access:
    """Return what the request's user may see and do, read once a request."""
    if not hasattr(request, _ACCESS):
        setattr(request, _ACCESS, access_of(request.user))
    known: Access = getattr(request, _ACCESS)
    return known


def sees_several_firms() -> bool:
    """Say whether rows on one page can belong to different firms."""
    scope = current_scope()
    return scope is not None and (scope.firm_ids is None or len(scope.firm_ids) > 1)


class FirmFilter(TermFilter):
    """Rows of one firm, by its slug; shown to users who see several firms."""

    title = "firm (slug)"
    parameter_name = "firm"

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        # Members of a single firm do not see the filter, and get the same refusals.
        slug = self.value()
        self._firm = Firm.objects.filter(slug=slug.strip()).first() if slug else None
        if slug and (self._firm is None or not require_scope("Firm").allows(self._firm.pk)):
            raise ParameterRefused(self.parameter_name, "You see no firm with this slug.")

    def has_output(self) -> bool:
        """Hide the filter from members of a single firm."""
        return sees_several_firms()

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the firm's rows."""
        return rows if self._firm is None else rows.filter(firm_id=self._firm.pk)
