"""Only a mailbox's owner and people with a content grant read its mail; break-glass is audited."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from mail.models import (
    Action,
    ContentGrant,
    Decision,
    EventType,
    MailAccount,
    MailEvent,
    MailLabel,
    MailThread,
    Message,
)
from mail.services.timelines.events import record_event
from tenants.models import Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries, messages_of, operation_url, submit
from tests.mail.admin.test_pages import fill
from tests.mail.mail_kit import Mailbox, letter, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-23")]

CANARY = "Aubergine"
MODELS = [MailThread, Message, Decision, Action, MailEvent]


class Person:
    """A member of the firm who is signed in to the admin."""

    def __init__(self, mailbox: Mailbox, name: str, role: Role = Role.VIEWER, **more: Any) -> None:
        self.user = UserFactory(
            username=name, is_staff=True, member_of=mailbox.firm, member_of__role=role, **more
        )
        self.client = Client()
        self.client.force_login(self.user)

    def sees(self) -> set[str]:
        """Return the pages and lists that show the canary."""
        found = set()
        for model in MODELS:
            name = f"admin:mail_{model._meta.model_name}"
            for row in stored(model):
                page = self.client.get(reverse(f"{name}_change", args=[row.pk]))
                assert page.status_code == 200
                if CANARY in page.content.decode():
                    found.add(f"{model.__name__} page")
            listed = self.client.get(reverse(f"{name}_changelist"))
            assert str(stored(model)[0].pk) in listed.content.decode()
            if CANARY in listed.content.decode():
                found.add(f"{model.__name__} list")
        return found


@pytest.fixture
def private(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox with an owner and a mail that has the canary in its subject and text."""
    mailbox.receive(letter(f"{CANARY} order", f"Could you send me one {CANARY}, please?"))
    fill(mailbox, 0)
    with firm_scope(mailbox.firm):
        owner = UserFactory(username="owner", is_staff=True, member_of=mailbox.firm)
        MailAccount.objects.update(shared=False, owner=owner)
        Decision.objects.update(rationale=CANARY, explanations={"salient_features": [CANARY]})
    mailbox.reload()
    return mailbox


def owner_of(mailbox: Mailbox) -> Client:
    client = Client()
    client.force_login(mailbox.account.owner)
    return client


EVERYWHERE = {
    "MailThread page", "MailThread list", "Message page", "Message list", "Decision page",
    "Decision list", "Action page", "Action list", "MailEvent page", "MailEvent list",
}  # fmt: skip


def test_a_shared_mailbox_is_readable_to_the_firm(private: Mailbox) -> None:
    with firm_scope(private.firm):
        MailAccount.objects.update(shared=True)
    assert Person(private, "vera").sees() == EVERYWHERE


@pytest.mark.parametrize("role", list(Role))
def test_members_see_that_there_is_mail_and_not_what_it_says(private: Mailbox, role: Role) -> None:
    person = Person(private, "vera", role)
    assert person.sees() == set()
    page = person.client.get(reverse("admin:mail_message_change", args=[stored(Message)[0].pk]))
    assert "Anna Novak" in page.content.decode()


def test_what_labels_a_private_mailbox_has_is_for_its_readers(private: Mailbox) -> None:
    label = "Label_Quince"
    with firm_scope(private.firm):
        Action.objects.update(
            parameters={"label": label}, pre_image={"labels": [label]}, undo_hint={"add": [label]}
        )
        changed = {"labels_added": [label], "action_type": "star"}
        message = Message.objects.get()
        record_event(EventType.ACTION_COMPLETED, private.account, message=message, detail=changed)
        event = MailEvent.objects.latest("pk")
    person = Person(private, "vera", Role.ADMIN)
    pages = [reverse("admin:mail_action_changelist")]
    pages += [reverse("admin:mail_action_change", args=[row.pk]) for row in stored(Action)]
    pages += [reverse("admin:mail_mailevent_change", args=[event.pk])]
    for page in pages:
        shown = person.client.get(page).content.decode()
        assert label not in shown
        assert label in owner_of(private).get(page).content.decode()
    assert "star" in shown

    with firm_scope(private.firm):
        MailLabel.objects.create(account=private.account, gmail_label_id=label, name="Divorce")
    for page in pages[:2]:
        assert "Divorce" not in person.client.get(page).content.decode()
        assert "Divorce" in owner_of(private).get(page).content.decode()


def test_platform_staff_are_no_exception(private: Mailbox) -> None:
    assert Person(private, "root", is_superuser=True).sees() == set()


def test_a_search_finds_nothing_of_what_the_searcher_may_not_read(private: Mailbox) -> None:
    client = Person(private, "vera").client
    for model in (Message, MailThread, Decision, Action):
        address = reverse(f"admin:mail_{model._meta.model_name}_changelist")
        listed = client.get(address, {"q": CANARY}).content.decode()
        assert str(stored(model)[0].pk) not in listed


def test_the_owner_reads_everything(private: Mailbox) -> None:
    person = Person(private, "vera")
    person.client.force_login(private.account.owner)
    assert person.sees() == EVERYWHERE


def test_the_owner_lets_somebody_read_and_withdraws_it(private: Mailbox) -> None:
    vera, otto = Person(private, "vera"), Person(private, "otto", Role.ADMIN)
    for stranger in (vera, otto):
        refused = stranger.client.get(operation_url(private.account, "grant"))
        assert refused.status_code == 403
    owner = owner_of(private)
    submit(owner, private.account, "grant", user=vera.user.pk, reason="my deputy")
    assert vera.sees() == EVERYWHERE
    assert otto.sees() == set()
    submit(owner, private.account, "withdraw", user=vera.user.pk)
    assert vera.sees() == set()
    assert [entry.act for entry in audit_entries(private.account.pk)] == [
        "mailbox.grant",
        "mailbox.withdraw_grant",
    ]


def test_break_glass_needs_a_reason_and_an_admin_and_ends(private: Mailbox) -> None:
    operator = Person(private, "olga", Role.OPERATOR)
    assert operator.client.get(operation_url(private.account, "break-glass")).status_code == 403
    admin = Person(private, "ada", Role.ADMIN)
    blank = submit(admin.client, private.account, "break-glass", reason=" ")
    assert blank.status_code == 400
    assert admin.sees() == set()

    answer = submit(admin.client, private.account, "break-glass", reason="a subpoena")
    assert "for an hour" in messages_of(answer)
    assert admin.sees() == EVERYWHERE
    (entry,) = audit_entries(private.account.pk)
    assert (entry.act, entry.reason, entry.actor_name) == (
        "mailbox.break_glass", "a subpoena", "ada",
    )  # fmt: skip
    shown = owner_of(private).get(
        reverse("admin:mail_mailaccount_change", args=[private.account.pk])
    )
    assert "Break-glass, by ada" in shown.content.decode()

    with firm_scope(private.firm):
        ContentGrant.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert admin.sees() == set()
