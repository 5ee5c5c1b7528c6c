"""Simple pages for the stock admin, where Unfold is not installed.

Django's permissions decide who may view and act. Without `tenants.middleware.FirmScopeMiddleware`
a request has no tenant scope; then everybody who may view sees the rows of every firm.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse

from tenants.models import Firm
from tenants.scope import all_firms, current_scope

# Lists say "10000" if there are more, because counting a queue means reading all of it.
MOST_COUNTED = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # generic to the checker alone
    """Pages through the first rows, and counts no others."""

    @cached_property
    def count(self) -> int:
        """The number of rows, up to a limit."""
        rows: Any = self.object_list
        return int(rows[:MOST_COUNTED].count())


class PlainAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic to the checker alone
    """Lists and pages to read, of rows that firms own."""

    show_full_result_count = False
    paginator = BoundedPaginator
    list_per_page = 50

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list."""
        return _in_scope(super().changelist_view, request, extra_context)

    def changeform_view(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        """Show the row."""
        return _in_scope(super().changeform_view, request, *args, **options)

    def history_view(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        """Show what Django's own log knows of the row."""
        return _in_scope(super().history_view, request, *args, **options)

    def delete_view(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        """Refuse, as nobody has the permission."""
        return _in_scope(super().delete_view, request, *args, **options)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Allow the actions to those who may change such rows."""
        return super().has_change_permission(request)


def _in_scope(view: Any, request: HttpRequest, *args: Any, **options: Any) -> Any:
    """Return the view's answer, rendered inside a tenant scope: of all firms, if there is none."""
    if current_scope() is not None:
        return view(request, *args, **options)
    with all_firms("the stock admin's user may see such rows"):
        answer = view(request, *args, **options)
        return answer.render() if isinstance(answer, TemplateResponse) else answer


@admin.register(Firm)
class FirmAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Firms and their limits. `manage.py delete_firm` deletes one."""

    list_display = ("name", "slug", "active", "weight", "running_cap")
    search_fields = ("name", "slug")
    search_help_text = "Part of the name or slug"

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False
