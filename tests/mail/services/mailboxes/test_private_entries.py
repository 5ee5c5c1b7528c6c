"""The audit log quotes the settings of a private mailbox to its readers alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import Contact, ReplyStyle, ReplyTemplate, Scope
from mail.services.agents.schedules import create_agent_schedule
from mail.services.drafting.reply_rows import create_reply_row, delete_reply_row
from mail.services.mailboxes.content_access import break_glass
from mail.services.rules.directions import create_direction
from mail.services.rules.operations import change_rule, create_rule, delete_rule
from tenants.audit import Actor
from tenants.models import AuditEntry, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory, new_member
from tests.mail.agent_kit import make_profile
from tests.mail.mail_kit import Mailbox, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-23", "T-05")]

# Words of the owner's that no text of the whole firm contains.
SECRET = "Dr. Sommer"
CONDITIONS = {"type": "subject_contains", "value": SECRET}


@pytest.fixture
def owner(mailbox: Mailbox) -> Any:
    """Return the owner, an admin of the firm, whose mail is theirs alone."""
    person = new_member(mailbox.firm, Role.ADMIN, "owner@acme.example")
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(owner=person, shared=False)
        mailbox.account.refresh_from_db()
    return person


@pytest.fixture
def colleague(mailbox: Mailbox) -> Any:
    return new_member(mailbox.firm, Role.ADMIN, "colleague@acme.example")


def browser(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def entries(person: Any) -> list[dict[str, Any]]:
    """Return the audit log as the person gets it over REST."""
    answer = browser(person).get("/api/v1/jobs/admin/audit/", {"limit": 100})
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


def pages(person: Any) -> str:
    """Return the pages of all entries in the admin."""
    client = browser(person)
    texts = []
    for entry in stored(AuditEntry):
        page = client.get(reverse("admin:tenants_auditentry_change", args=[entry.pk]))
        assert page.status_code == 200
        texts.append(page.content.decode())
    return "".join(texts)


def settle(mailbox: Mailbox, account_id: Any) -> None:
    """Create a row of each kind of setting, and delete some."""
    firm_id, scope = mailbox.firm.pk, Scope.ACCOUNT if account_id else Scope.GLOBAL
    where = {"account_id": account_id, "scope": scope}
    create_direction(firm_id, text=f"{SECRET} is urgent", **where)
    rule = create_rule(firm_id, name="Doctor", conditions=CONDITIONS, category="fyi", **where)
    # The audit entry of a change has the changed settings only, so it does not name the mailbox.
    change_rule(rule, name=f"Mail of {SECRET}")
    delete_rule(rule)
    template = create_reply_row(
        ReplyTemplate, firm_id, account_id=account_id, name="Visit", text=f"{SECRET} sees you."
    )
    delete_reply_row(template)
    create_reply_row(ReplyStyle, firm_id, account_id=account_id, name=SECRET)
    create_reply_row(
        Contact, firm_id, account_id=account_id, pattern="*@clinic.example", style=SECRET
    )


def test_who_may_not_read_the_mailbox_sees_no_settings_of_it(
    mailbox: Mailbox, owner: Any, colleague: Any
) -> None:
    settle(mailbox, mailbox.account.pk)
    create_agent_schedule(
        mailbox.firm.pk,
        name="Morning",
        prompt=f"What does {SECRET} want?",
        account_id=mailbox.account.pk,
        profile_id=make_profile(mailbox).pk,
        interval_seconds=3600,
    )
    staff = UserFactory(username="root", is_staff=True, is_superuser=True)
    for stranger in (colleague, staff):
        shown = {entry["operation"]: entry for entry in entries(stranger)}
        assert SECRET not in str(shown)
        assert SECRET not in pages(stranger)
        # Every admin sees who did what and when.
        assert {"rule.change", "rule.delete", "contact.create", "direction.create"} <= set(shown)
        assert shown["rule.change"]["after"] is None
        assert shown["agent_schedule.create"]["after"] is None
    assert str(entries(owner)).count(SECRET) >= 8
    assert SECRET in pages(owner)


def test_break_glass_shows_settings_of_the_mailbox(
    mailbox: Mailbox, owner: Any, colleague: Any
) -> None:
    settle(mailbox, mailbox.account.pk)
    break_glass(mailbox.account, reason="audit", by=Actor("api", colleague))
    assert entries(colleague) == entries(owner)
    assert SECRET in pages(colleague)


@pytest.mark.usefixtures("owner")
def test_settings_of_the_whole_firm_are_for_all_its_admins(
    mailbox: Mailbox, colleague: Any
) -> None:
    settle(mailbox, None)
    assert all(entry["before"] is not None for entry in entries(colleague))
    assert str(entries(colleague)).count(SECRET) >= 7


def test_a_rule_that_left_the_mailbox_takes_nothing_along(
    mailbox: Mailbox, owner: Any, colleague: Any
) -> None:
    rule = create_rule(
        mailbox.firm.pk,
        name="Doctor",
        conditions=CONDITIONS,
        category="fyi",
        account_id=mailbox.account.pk,
        scope=Scope.ACCOUNT,
    )
    change_rule(rule, name=f"Mail of {SECRET}")
    change_rule(rule, name="Hello", conditions={"type": "subject_contains", "value": "hello"})
    change_rule(rule, account_id=None, scope=Scope.GLOBAL)
    assert SECRET not in str(entries(colleague))
    assert SECRET in str(entries(owner))
