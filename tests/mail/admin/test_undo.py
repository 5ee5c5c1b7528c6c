"""Undo in the admin: a page for confirmation, and a POST that asks for the undo once."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user
from django.test import Client

from jobs.testing import drain
from tenants.models import Firm, Role
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.admin.pages import audit_entries, messages_of, operation_url, submit
from tests.mail.action_kit import ARRIVED, ask, done, received
from tests.mail.mail_kit import Mailbox, jobs

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-16", "O-03")]


def browser_of(firm: Firm, role: Role) -> Client:
    user = UserFactory(username=str(role), is_staff=True, member_of=firm, member_of__role=role)
    client = Client()
    client.force_login(user)
    return client


def test_an_operator_undoes_an_action(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "archive")
    client = browser_of(mailbox.firm, Role.OPERATOR)
    answer = submit(client, action, "undo", reason="It was needed")
    assert answer.status_code == 302
    assert "The undo was asked for" in messages_of(answer)
    again = client.post(operation_url(action, "undo"), {"seen": "completed", "reason": ""})
    assert again.status_code == 409
    assert "The action is being undone" in again.content.decode()
    drain()
    assert mailbox.labels(arrived) == set(ARRIVED)
    page = client.get(answer.headers["location"]).content.decode()
    assert "The action is undone already." in page
    (entry,) = audit_entries(action.pk)
    assert (entry.door, entry.reason) == ("admin", "It was needed")


@pytest.mark.parametrize("who", ["platform staff", "an operator of two firms"])
def test_somebody_who_sees_several_firms_undoes_an_action(
    mailbox: Mailbox, other_firm: Firm, who: str
) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "archive")
    client = browser_of(mailbox.firm, Role.OPERATOR)
    user = get_user(client)
    if who == "platform staff":
        user.is_superuser = True
        user.save()
    else:
        MembershipFactory(user=user, firm=other_firm, role=Role.OPERATOR)
    answer = submit(client, action, "undo")
    assert "The undo was asked for" in messages_of(answer)
    drain()
    assert mailbox.labels(arrived) == set(ARRIVED)


def test_opening_the_page_changes_nothing(mailbox: Mailbox) -> None:
    action = done(mailbox, received(mailbox), "archive")
    client = browser_of(mailbox.firm, Role.OPERATOR)
    assert (
        "Takes back in Gmail what the action changed"
        in client.get(operation_url(action, "undo")).content.decode()
    )
    assert jobs("undo.action") == []


def test_a_viewer_has_no_button_and_no_page(mailbox: Mailbox) -> None:
    action = done(mailbox, received(mailbox), "archive")
    client = browser_of(mailbox.firm, Role.VIEWER)
    assert client.get(operation_url(action, "undo")).status_code == 403
    page = client.get(operation_url(action, "change")).content.decode()
    assert operation_url(action, "undo") not in page


def test_the_page_says_beforehand_what_could_never_be_undone(mailbox: Mailbox) -> None:
    action = ask(mailbox, received(mailbox), "delete", permanently=True)
    client = browser_of(mailbox.firm, Role.OPERATOR)
    page = client.get(operation_url(action, "change")).content.decode()
    assert "Gmail keeps nothing of a message that was deleted for good." in page
