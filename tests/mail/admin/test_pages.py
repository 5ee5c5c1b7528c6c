"""The mail pages of the admin: readable, harmless, bounded, and walled off between firms."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from mail.llm.base import Category
from mail.llm.offline import OfflineClassifier
from mail.models import Action, Decision, MailAccount, MailEvent, MailLabel, MailThread, Message
from mail.services.actions.perform import perform_action
from mail.services.deciding.classify import classify_thread
from tenants.models import Firm, Role
from tests.factories.mail import MessageFactory
from tests.factories.tenants import UserFactory
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import crumbs, operation_url, submit, title
from tests.mail.mail_kit import Mailbox, letter, stored

pytestmark = pytest.mark.django_db

MODELS = [MailAccount, MailLabel, MailThread, Message, Decision, Action, MailEvent]
EVIL = "<script>alert('mail')</script>"


def name_of(model: type[Any]) -> str:
    return f"admin:mail_{model._meta.model_name}"


def member_of(firm: Firm) -> Client:
    """Return a browser in which a viewer of the firm is signed in."""
    user = UserFactory(
        username=f"viewer-of-{firm.slug}",
        is_staff=True,
        member_of=firm,
        member_of__role=Role.VIEWER,
    )
    client = Client()
    client.force_login(user)
    return client


def fill(mailbox: Mailbox, count: int) -> None:
    """Store, judge and label some mail."""
    for number in range(count):
        mailbox.receive(letter(f"Question {len(stored(Message))} {number} {EVIL}", f"Hello {EVIL}"))
    for message in mailbox.store_all():
        classify_thread(
            mailbox.account, message.thread_id, message.pk, OfflineClassifier(), job_id=uuid4()
        )
    for action in stored(Action):
        perform_action(mailbox.account, mailbox.gmail, action.pk, job_id=uuid4())


@pytest.mark.req("O-03", "M-21")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_lists_and_pages_show_the_firms_rows_and_run_no_mail(
    mailbox: Mailbox, model: type[Any]
) -> None:
    fill(mailbox, 2)
    client = member_of(mailbox.firm)
    listed = client.get(reverse(f"{name_of(model)}_changelist"))
    assert listed.status_code == 200
    row = stored(model)[0]
    assert str(row.pk) in listed.content.decode()
    page = client.get(reverse(f"{name_of(model)}_change", args=[row.pk]))
    assert page.status_code == 200
    assert EVIL not in listed.content.decode() + page.content.decode()


@pytest.mark.req("T-03")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_another_firms_member_finds_nothing(
    mailbox: Mailbox, other_firm: Firm, model: type[Any]
) -> None:
    fill(mailbox, 1)
    client = member_of(other_firm)
    row = stored(model)[0]
    assert client.get(reverse(f"{name_of(model)}_change", args=[row.pk])).status_code == 404
    listed = client.get(reverse(f"{name_of(model)}_changelist"))
    assert listed.status_code == 200
    assert str(row.pk) not in listed.content.decode()


@pytest.mark.req("O-03")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_nothing_can_be_changed(mailbox: Mailbox, model: type[Any]) -> None:
    fill(mailbox, 1)
    client = member_of(mailbox.firm)
    row = stored(model)[0]
    assert client.get(reverse(f"{name_of(model)}_add")).status_code == 403
    assert client.post(reverse(f"{name_of(model)}_delete", args=[row.pk])).status_code == 403
    change = client.post(reverse(f"{name_of(model)}_change", args=[row.pk]), {"subject": "x"})
    assert change.status_code == 403


@pytest.mark.req("O-03")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_longer_list_takes_no_more_queries(mailbox: Mailbox, model: type[Any]) -> None:
    client = member_of(mailbox.firm)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(reverse(f"{name_of(model)}_changelist"))
        return len(captured)

    fill(mailbox, 2)
    few = queries()
    fill(mailbox, 8)
    assert queries() == few


@pytest.mark.req("O-03")
def test_a_list_of_messages_leaves_their_contents_in_the_database(mailbox: Mailbox) -> None:
    fill(mailbox, 1)
    client = member_of(mailbox.firm)
    with CaptureQueriesContext(connection) as captured:
        client.get(reverse("admin:mail_message_changelist"))
    read = [query["sql"] for query in captured if 'FROM "mail_message"' in query["sql"]]
    assert read
    assert not any('"mail_message"."html"' in sql or '"mail_message"."text"' in sql for sql in read)


@pytest.mark.req("O-03", "M-21")
def test_a_messages_page_tells_its_whole_story(mailbox: Mailbox) -> None:
    arrived = mailbox.receive(letter("Could you send the price list?", "When can we have it?"))
    fill(mailbox, 0)
    message = mailbox.message(arrived)
    page = member_of(mailbox.firm).get(reverse("admin:mail_message_change", args=[message.pk]))
    text = page.content.decode()
    (decision,) = stored(Decision)
    for shown in ("Anna Novak", "When can we have it?", "INBOX", "Apply label", "Completed"):
        assert shown in text
    assert reverse("admin:mail_decision_change", args=[decision.pk]) in text


@pytest.mark.req("O-03")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=Question", True),
        ("q=anna@customer.example", True),
        ("q=nobody@customer.example", False),
        ("q=Nothing+like+it", False),
        ("direction=in", True),
        ("direction=out", False),
        ("age=24h", True),
    ],
)
def test_messages_are_found_by_what_people_remember(
    mailbox: Mailbox, query: str, *, found: bool
) -> None:
    fill(mailbox, 1)
    listed = member_of(mailbox.firm).get(reverse("admin:mail_message_changelist") + f"?{query}")
    assert listed.status_code == 200
    assert (str(stored(Message)[0].pk) in listed.content.decode()) is found


@pytest.mark.req("O-03")
def test_decisions_are_filtered_by_category(mailbox: Mailbox) -> None:
    fill(mailbox, 1)
    client = member_of(mailbox.firm)
    (decision,) = stored(Decision)
    for category in Category:
        address = reverse("admin:mail_decision_changelist") + f"?category={category.value}"
        shown = str(decision.pk) in client.get(address).content.decode()
        assert shown is (category == decision.category)


@pytest.mark.req("U-06", "O-03")
def test_attachments_of_a_mailbox_are_switched(mailbox: Mailbox, settings: Settings) -> None:
    admin = browser_of(mailbox.firm, Role.ADMIN)
    page = operation_url(mailbox.account, "change")
    assert submit(admin, mailbox.account, "attachments", read="").status_code == 302
    assert mailbox.reload().read_attachments is False
    assert "Not read" in admin.get(page).content.decode()
    assert submit(admin, mailbox.account, "attachments", read="on").status_code == 302
    assert mailbox.reload().read_attachments is True
    settings.READ_ATTACHMENTS = False
    assert "Not read: READ_ATTACHMENTS is off for all mailboxes" in admin.get(page).content.decode()
    operator = browser_of(mailbox.firm, Role.OPERATOR)
    assert operator.get(operation_url(mailbox.account, "attachments")).status_code == 403


@pytest.mark.req("O-03")
@pytest.mark.parametrize("model", [Message, MailThread], ids=lambda model: model.__name__)
def test_a_page_is_called_by_the_subject_and_not_by_gmails_id(
    mailbox: Mailbox, model: type[Any]
) -> None:
    mailbox.receive(letter("A question", "Hello"))
    mailbox.store_all()
    row = stored(model)[0]
    page = member_of(mailbox.firm).get(reverse(f"{name_of(model)}_change", args=[row.pk]))
    assert "A question" in crumbs(page)[-1]
    assert str(row) not in title(page)


@pytest.mark.req("T-05")
@pytest.mark.parametrize("row", ["routingrule", "agentprofile", "direction", "datarequest"])
def test_staff_is_not_told_of_every_firm_where_a_row_is_of_one(
    mailbox: Mailbox, admin_client: Client, row: str
) -> None:
    new = reverse(f"admin:mail_{row}_new")
    assert "Every firm" not in admin_client.get(new).content.decode()
    for given in ({}, {"everywhere": "on"}):
        refused = admin_client.post(new, {"seen": "", **given})
        assert refused.context["form"].errors["firm"] == ["Name one firm."]
    refused = admin_client.post(new, {"seen": "", "firm": mailbox.firm.slug})
    assert "firm" not in refused.context["form"].errors


@pytest.mark.req("O-03")
def test_a_message_to_which_nothing_happened_says_so(firm: Firm) -> None:
    message = MessageFactory(account__firm=firm)
    page = browser_of(firm, Role.VIEWER).get(f"/admin/mail/message/{message.pk}/change/")
    story = page.content.decode().partition("What happened to it")[2]
    assert "Nothing yet." in story
