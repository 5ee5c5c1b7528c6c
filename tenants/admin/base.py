"""The base of every admin page: what a member of a firm may look at, and nothing to change."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.http import Http404, HttpRequest
from unfold.paginator import InfinitePaginator

from interfaces.admin.closed_list import ClosedList
from tenants.access import Access, access_of
from tenants.models import Role
from tenants.scope import current_scope

_ACCESS = "firm_access"


class ReadOnlyAdmin(ClosedList):
    """Lists and pages to read, for platform staff and for members of a firm.

    Which rows there are is decided by the request's tenant scope; rows out of scope, like rows
    that do not exist, answer 404. Nothing counts the table.
    """

    show_full_result_count = False
    paginator = InfinitePaginator
    list_per_page = 50
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow whoever sees at least one firm."""
        scope = current_scope()
        return scope is not None and scope.firm_ids != frozenset()

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Allow whoever may view."""
        return self.has_view_permission(request)

    def get_list_display(self, request: HttpRequest) -> list[str]:
        """Show the firm only to those who see several."""
        columns = list(super().get_list_display(request))
        return columns if sees_several_firms() else [name for name in columns if name != "firm"]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model:
        """Return the row.

        Raises:
            Http404: there is none in scope (the stock admin would redirect to its index).
        """
        found: Model | None = super().get_object(request, object_id, from_field)
        if found is None:
            raise Http404(f"no {self.model._meta.verbose_name} has this id")
        return found

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the page, without the buttons that would change something."""
        context = {"show_save": False, "show_save_and_continue": False, **(extra_context or {})}
        return super().changeform_view(request, object_id, form_url, context)


def access_in(request: HttpRequest) -> Access:
    """Return what the request's user may see and do; asked of the database once a request."""
    if not hasattr(request, _ACCESS):
        setattr(request, _ACCESS, access_of(request.user))
    known: Access = getattr(request, _ACCESS)
    return known


def may_somewhere(request: HttpRequest, needed: Role) -> bool:
    """Say whether the request's user has this role, or a higher one, in any firm."""
    roles = access_in(request).roles
    return roles is None or any(role.includes(needed) for role in roles.values())


def sees_all_firms() -> bool:
    """Say whether the request sees every firm."""
    scope = current_scope()
    return scope is not None and scope.firm_ids is None


def sees_several_firms() -> bool:
    """Say whether rows on one page can belong to different firms."""
    scope = current_scope()
    return scope is not None and (scope.firm_ids is None or len(scope.firm_ids) > 1)
