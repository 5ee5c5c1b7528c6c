"""Users in the admin, for platform staff; what a user may do comes from memberships.

A user belongs to no firm, so the system firm's audit log holds the changes.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from interfaces.admin.filters import flag_filter
from interfaces.admin.operations import Operation, OperationsAdmin
from tenants.admin.base import access_in, actor_in
from tenants.audit import Actor, record_operation
from tenants.models import Firm

# What the audit log keeps of a user. Of a password it keeps only the fact that it was set.
FACTS = ("username", "email", "is_active", "is_staff", "is_superuser")
Facts = dict[str, Any]


StaffFilter = flag_filter("is_staff", "may use the admin")
PlatformStaffFilter = flag_filter("is_superuser", "sees every firm")
ActiveUserFilter = flag_filter("is_active", "may sign in")


class UserAdmin(DjangoUserAdmin, OperationsAdmin):  # type: ignore[type-arg, misc]  # the stubs' class is generic, and Unfold has none
    """Django's user pages with this admin's looks; the audit log records each change.

    The queue adds the operation that deletes a user: it takes the user's jobs along.
    """

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    # Otherwise the page says how many users there are as if a search had found them.
    show_full_result_count = True  # type: ignore[misc]  # the stubs disagree about this attribute
    search_help_text = "Part of the sign-in name, the name or the e-mail address"
    list_filter = (StaffFilter, PlatformStaffFilter, ActiveUserFilter)
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "email", "password")}),
        ("May", {"fields": ("is_active", "is_staff", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save the user, and record what changed."""
        before = _facts(User.objects.get(pk=obj.pk)) if change else {}
        super().save_model(request, obj, form, change)
        after = {
            name: fact for name, fact in _facts(obj).items() if not change or fact != before[name]
        }
        if after:
            operation = "user.change" if change else "user.create"
            before = {name: before[name] for name in after if change}
            _record(request, operation, obj, before, after)

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[User],
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,
    ) -> Paginator[User]:
        """Return a paginator that counts, because there are few users."""
        return Paginator(queryset, per_page, orphans, allow_empty_first_page)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Allow platform staff."""
        return access_in(request).is_platform_staff

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow platform staff."""
        return access_in(request).is_platform_staff

    has_view_permission = has_change_permission
    has_delete_permission = has_change_permission

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow platform staff."""
        return access_in(request).is_platform_staff

    def actor(self, request: HttpRequest) -> Actor:
        """Return the request's user."""
        return actor_in(request)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Add nothing: Django's page has the buttons."""
        return {}

    def user_change_password(
        self,
        request: HttpRequest,
        id: str,  # noqa: A002 - Django's name for it
        form_url: str = "",
    ) -> HttpResponse:
        """Set a user's password, and record that it was set."""
        user = self.get_object(request, unquote(id))
        answer = super().user_change_password(request, id, form_url)
        if user is not None and User.objects.get(pk=user.pk).password != user.password:
            _record(request, "user.password", user)
        return answer


def replace_user_admin() -> None:
    """Show these pages of users in place of Django's, and none of groups."""
    for model in (User, Group):
        admin.site.unregister(model)
    admin.site.register(User, UserAdmin)


def _facts(user: User) -> Facts:
    return {name: getattr(user, name) for name in FACTS}


def _record(
    request: HttpRequest,
    operation: str,
    user: User,
    before: Facts | None = None,
    after: Facts | None = None,
) -> None:
    record_operation(
        actor_in(request),
        operation,
        firm_id=Firm.objects.system().pk,
        target=("user", user.pk),
        before=before,
        after=after,
    )
