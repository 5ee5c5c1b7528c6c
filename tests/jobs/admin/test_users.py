"""Users in the admin: the audit log has what platform staff do to them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms
from tests.factories.tenants import UserFactory
from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import operation_url, submit

pytestmark = [pytest.mark.django_db, pytest.mark.req("T-05")]

PASSWORD = "correct-horse-battery"
LISTING = "admin:auth_user_changelist"


@pytest.fixture
def bob(system_firm: Firm) -> User:
    """Return a user who is a member of no firm."""
    return UserFactory(username="bob", email="bob@example.org")


def log() -> list[tuple[Any, ...]]:
    with all_firms("test"):
        entries = AuditEntry.objects.filter(target_type="user").order_by("id")
        assert {entry.firm.slug for entry in entries} <= {"system"}
        return [(e.actor_name, e.act, e.target_id, e.before, e.after) for e in entries]


def test_the_list_counts_only_what_a_search_found(staff: Client, bob: User) -> None:
    listing = reverse(LISTING)
    assert "Show all" not in staff.get(listing).content.decode()
    found = staff.get(listing, {"q": "bob"}).content.decode()
    assert "1 result" in found
    assert "2 total" in found


def test_a_new_user_is_written_down(staff: Client, system_firm: Firm) -> None:
    answer = staff.post(
        reverse("admin:auth_user_add"),
        {
            "username": "eve",
            "usable_password": "true",
            "password1": PASSWORD,
            "password2": PASSWORD,
        },
    )
    assert answer.status_code == 302
    eve = get_user_model().objects.get(username="eve")
    ((who, act, target, before, after),) = log()
    assert (who, act, target, before) == ("root", "user.create", str(eve.pk), {})
    assert (after["username"], after["is_superuser"]) == ("eve", False)


def test_making_somebody_platform_staff_is_written_down(staff: Client, bob: User) -> None:
    form = {"username": "bob", "email": bob.email, "is_active": "on"}
    for extra in ({"is_superuser": "on"}, {"is_superuser": "on"}):
        assert staff.post(operation_url(bob, "change"), {**form, **extra}).status_code == 302
    assert log() == [
        ("root", "user.change", str(bob.pk), {"is_superuser": False}, {"is_superuser": True})
    ]


def test_setting_somebodys_password_is_written_down(staff: Client, bob: User) -> None:
    for password in ("x", PASSWORD):
        form = {"usable_password": "true", "password1": password, "password2": password}
        staff.post(operation_url(bob, "password_change"), {**form, "set-password": "1"})
    bob.refresh_from_db()
    assert bob.check_password(PASSWORD)
    assert log() == [("root", "user.password", str(bob.pk), {}, {})]


@pytest.mark.req("T-04")
def test_deleting_a_user_takes_a_typed_confirmation_and_is_written_down(
    staff: Client, acme: FirmRows
) -> None:
    member = acme.membership.user
    page = staff.get(operation_url(member, "change"))
    assert operation_url(member, "delete") in page.content.decode()
    wrong = submit(staff, member, "delete", confirmation="somebody", reason="left the firm")
    assert wrong.status_code == 400
    assert log() == []
    name = member.get_username()
    done = submit(staff, member, "delete", confirmation=name, reason="left the firm")
    assert done.status_code == 302, done.content
    member.refresh_from_db()
    assert not member.is_active
    ((who, act, target, before, after),) = log()
    assert (who, act, target, list(after)) == ("root", "user.delete", str(member.pk), ["job_id"])
    assert before["username"] == name


def test_nobody_is_deleted_from_the_list_or_by_themselves(staff: Client, bob: User) -> None:
    chosen = {"action": "delete_selected", "_selected_action": str(bob.pk), "post": "yes"}
    staff.post(reverse(LISTING), chosen)
    root = get_user_model().objects.get(username="root")
    own = submit(staff, root, "delete", confirmation="root", reason="bye")
    assert own.status_code == 409
    assert get_user_model().objects.filter(pk__in=[bob.pk, root.pk], is_active=True).count() == 2
    assert log() == []


@pytest.mark.req("T-04")
def test_a_firm_is_deleted_after_its_slug_was_typed(
    staff: Client, firm_admin: Client, acme: FirmRows
) -> None:
    assert firm_admin.get(operation_url(acme.firm, "delete")).status_code == 403
    empty = submit(staff, acme.firm, "delete", confirmation="", reason="contract ended")
    assert empty.context["form"].errors == {"confirmation": ["This field is required."]}
    wrong = submit(staff, acme.firm, "delete", confirmation="globex", reason="contract ended")
    assert wrong.status_code == 400
    done = submit(staff, acme.firm, "delete", confirmation="acme", reason="contract ended")
    assert done.status_code == 302, done.content
    acme.firm.refresh_from_db()
    assert not acme.firm.active
    with all_firms("test"):
        entry = AuditEntry.objects.get(act="firm.delete")
    assert (entry.actor_name, entry.reason) == ("root", "contract ended")
    system = Firm.objects.system()
    assert staff.get(operation_url(system, "delete")).status_code == 409
