"""Firms, memberships, and the commands that make them."""

from __future__ import annotations

import json
import os
from io import StringIO
from pwd import getpwuid
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from tenants.cli import operator
from tenants.errors import UnknownFirm
from tenants.models import SYSTEM_SLUG, AuditEntry, Firm, Membership, Role
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import UserFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("T-01")]


def command(*arguments: str) -> Any:
    """Run a command with --json and return the object it prints."""
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def refused(*arguments: str) -> int:
    """Run a command that must fail and return its exit code."""
    with pytest.raises(CommandError) as caught:
        call_command(*arguments, stdout=StringIO(), stderr=StringIO())
    return caught.value.returncode


def log() -> list[AuditEntry]:
    """Return the entries of the audit log, oldest first."""
    with all_firms("test"):
        return list(AuditEntry.objects.order_by("id"))


def test_there_is_a_firm_for_jobs_of_no_firm(system_firm):
    assert Firm.objects.system() == system_firm
    assert system_firm.slug == SYSTEM_SLUG == "system"


def test_a_firm_is_found_by_its_slug(firm):
    assert Firm.objects.get_by_slug("acme") == firm
    with pytest.raises(UnknownFirm, match="initech"):
        Firm.objects.get_by_slug("initech")


def test_a_firms_defaults(firm):
    firm.refresh_from_db()
    assert (firm.active, firm.weight, firm.running_cap, firm.retention_days) == (
        True,
        1,
        None,
        None,
    )
    with pytest.raises(IntegrityError), transaction.atomic():
        Firm.objects.filter(pk=firm.pk).update(weight=0)
    with pytest.raises(IntegrityError), transaction.atomic():
        Firm.objects.create(name="Other", slug="acme")
    assert Firm.objects.get(pk=firm.pk).weight == 1


def test_a_user_has_one_known_role_in_a_firm(firm, other_firm):
    user = UserFactory(username="ada")
    with firm_scope(firm):
        Membership.objects.create(user=user, role=Role.VIEWER)
        with pytest.raises(IntegrityError), transaction.atomic():
            Membership.objects.create(user=user, role=Role.ADMIN)
        with pytest.raises(IntegrityError), transaction.atomic():
            Membership.objects.update(role="emperor")
        assert Membership.objects.get().role == "viewer"
    with firm_scope(other_firm):
        Membership.objects.create(user=user, role=Role.ADMIN)
    with all_firms("test"):
        assert Membership.objects.count() == 2
    assert list(Role) == ["viewer", "operator", "developer", "admin"]


def test_create_firm(system_firm):
    made = command("create_firm", "Initech", "--slug", "initech")
    assert Firm.objects.get(pk=made["id"]).name == made["name"] == "Initech"
    assert refused("create_firm", "Again", "--slug", "initech") == 1
    assert refused("create_firm", "Odd", "--slug", "no spaces") == 1
    assert Firm.objects.filter(slug="initech").count() == 1
    with pytest.raises(CommandError, match="name: This field cannot be blank"):
        command("create_firm", "", "--slug", "empty")


@pytest.mark.req("T-05")
def test_making_a_firm_is_written_down_with_the_account_it_was_typed_under(system_firm):
    made = command("create_firm", "Initech", "--slug", "initech")
    refused("create_firm", "Again", "--slug", "initech")
    (entry,) = log()
    assert (entry.act, entry.target_id, entry.firm_id) == (
        "firm.create",
        str(made["id"]),
        made["id"],
    )
    assert (entry.door, entry.actor_name) == ("cli", f"cli:{getpwuid(os.getuid()).pw_name}")
    assert (entry.before, entry.after) == ({}, {"name": "Initech", "slug": "initech"})


def test_an_account_without_a_name_is_known_by_its_number(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    assert operator().name == "cli:4000000001"


def test_create_user(firm, other_firm, monkeypatch):
    monkeypatch.setenv("PASSWORD_OF_ADA", "correct-horse-battery")
    arguments = ["create_user", "Ada@example.org", "--password-env", "PASSWORD_OF_ADA"]
    made = command(*arguments, "--firm", "acme", "--role", "viewer")
    user = get_user_model().objects.get(pk=made["id"])
    assert user.check_password("correct-horse-battery")
    command(*arguments, "--firm", "globex", "--role", "admin")
    command(*arguments, "--firm", "acme", "--role", "operator")
    with all_firms("test"):
        roles = dict(Membership.objects.values_list("firm__slug", "role"))
    assert roles == {"acme": "operator", "globex": "admin"}
    assert get_user_model().objects.filter(email__iexact="ada@example.org").count() == 1


@pytest.mark.req("T-05")
def test_every_change_of_a_role_is_written_down(firm, monkeypatch):
    monkeypatch.setenv("PASSWORD_OF_ADA", "correct-horse-battery")
    for role in ("viewer", "viewer", "admin"):
        made = command(
            "create_user", "Ada@example.org", "--password-env", "PASSWORD_OF_ADA",
            "--firm", "acme", "--role", role,
        )  # fmt: skip
    with all_firms("test"):
        member = str(Membership.objects.get(user=made["id"]).pk)
    viewer = {"user": "ada@example.org", "role": "viewer"}
    admin = {"user": "ada@example.org", "role": "admin"}
    assert [(entry.act, entry.target_id, entry.before, entry.after) for entry in log()] == [
        ("member.add", member, {}, viewer),
        ("member.role", member, viewer, admin),
    ]
    assert {(entry.firm_id, entry.actor_name) for entry in log()} == {(firm.pk, operator().name)}


@pytest.mark.parametrize(
    ("email", "slug", "password", "exit_code"),
    [
        ("ada@example.org", "initech", "correct-horse-battery", 3),
        ("no address", "acme", "correct-horse-battery", 1),
        ("ada@example.org", "acme", "", 1),
        ("ada@example.org", "acme", "12345", 1),
    ],
)
def test_create_user_refuses_and_leaves_nothing(
    firm, monkeypatch, email, slug, password, exit_code
):
    monkeypatch.setenv("PASSWORD_OF_ADA", password)
    code = refused(
        "create_user",
        email,
        "--firm",
        slug,
        "--role",
        "viewer",
        "--password-env",
        "PASSWORD_OF_ADA",
    )
    assert code == exit_code
    assert not get_user_model().objects.exists()
