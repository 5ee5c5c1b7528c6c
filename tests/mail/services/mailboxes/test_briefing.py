"""The briefing of a mailbox: what waits for its person, over REST and in the admin."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import (
    ActionType,
    Approval,
    Draft,
    MailAccount,
    MailThread,
    Message,
    OutboundStatus,
)
from mail.services.actions.actions import request_action
from mail.services.digests.content import digest_of
from mail.services.mailboxes.briefing import SHOWN, briefing_of
from mail.services.sending.outbound_operations import mark_sent
from mail.services.sending.send import DRAFT_GONE
from mail.services.sending.send_outcome import end_send
from tenants.models import Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.api.conftest import key_for
from tests.mail.draft_kit import asked, give_label, prepared, synced
from tests.mail.mail_kit import Mailbox, letter, stored
from tests.mail.send_kit import answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-22")]

NEWS = "For your information: we are moving."


def path_of(mailbox: Mailbox) -> str:
    return f"/api/v1/mail/accounts/{mailbox.account.pk}/briefing/"


def asked_for(mailbox: Mailbox, **query: Any) -> Any:
    key = key_for(mailbox.firm, Role.VIEWER, uuid4().hex)
    return Client().get(path_of(mailbox), query, headers={"Authorization": f"Bearer {key}"})


def make_threads(mailbox: Mailbox, number: int, category: Category, **more: Any) -> None:
    """Store threads, a minute apart, the oldest first."""
    now = timezone.now()
    with firm_scope(mailbox.firm):
        MailThread.objects.bulk_create(
            MailThread(
                firm=mailbox.firm,
                account=mailbox.account,
                gmail_thread_id=uuid4().hex,
                subject=f"{category} {index}",
                classification=category,
                **{
                    "status": "skipped",
                    "last_message_at": now - timedelta(hours=1) + timedelta(minutes=index),
                    **more,
                },
            )
            for index in range(number)
        )


def test_it_tells_what_waits(mailbox: Mailbox) -> None:
    prepared(mailbox)
    asked(mailbox)
    news = asked(mailbox, NEWS, message_id="<news@customer.example>", sender="news@shop.example")
    give_label(mailbox, news, LabelKey.WAITING)
    synced(mailbox)
    with firm_scope(mailbox.firm):
        request_action(Message.objects.get(gmail_message_id=news), ActionType.DELETE)
    shown = asked_for(mailbox).json()
    assert shown["categories"] == {
        **dict.fromkeys(Category, 0), "needs_response": 1, "waiting": 1,
    }  # fmt: skip
    assert [one["subject"] for one in shown["for_you"]["first"]] == ["Price list"]
    assert [one["category"] for one in shown["for_others"]["first"]] == ["waiting"]
    assert [one["id"] for one in shown["drafts"]["first"]] == [str(stored(Draft)[0].pk)]
    assert [one["id"] for one in shown["approvals"]["first"]] == [str(stored(Approval)[0].pk)]
    (proposed,) = shown["proposed_rules"]["first"]
    assert (proposed["category"], proposed["corrections"]) == ("waiting", 1)


def test_the_page_claims_no_answers_that_nobody_has_looked_for(mailbox: Mailbox) -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    page = f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/"
    assert "the follow-ups of this mailbox are off" in client.get(page).content.decode()
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(follow_up_days=3)
    assert "waited for an answer for 3 days" in client.get(page).content.decode()


def test_a_message_that_needs_a_look_is_on_it_until_somebody_has_looked(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    mailbox.store_all()
    asked_anew = answer(mailbox, arrived)
    client = Client()
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    page = f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/"
    assert asked_for(mailbox).json()["in_doubt"] == {"count": 0, "first": []}
    end_send(asked_anew, OutboundStatus.UNKNOWN, DRAFT_GONE)
    with firm_scope(mailbox.firm):
        digest = digest_of(mailbox.account, date(2026, 5, 4), "Europe/Vienna")
    assert digest is not None
    assert "1 needs a look" in digest.summary
    assert f"/admin/mail/outboundmessage/{asked_anew.pk}/change/" in digest.text
    assert (
        f"/admin/mail/outboundmessage/{asked_anew.pk}/change/" in client.get(page).content.decode()
    )
    (shown,) = asked_for(mailbox).json()["in_doubt"]["first"]
    assert (shown["id"], shown["error"]) == (str(asked_anew.pk), DRAFT_GONE)
    mark_sent(asked_anew, reason="I found it")
    assert asked_for(mailbox).json()["in_doubt"]["count"] == 0


def test_long_parts_are_counted_and_their_oldest_shown(mailbox: Mailbox) -> None:
    make_threads(mailbox, SHOWN + 5, Category.ACTION_REQUIRED)
    part = asked_for(mailbox).json()["for_you"]
    assert part["count"] == SHOWN + 5
    expected = [f"action_required {index}" for index in range(SHOWN)]
    assert [one["subject"] for one in part["first"]] == expected


def test_what_is_over_or_old_is_left_out(mailbox: Mailbox) -> None:
    make_threads(mailbox, 1, Category.NEEDS_RESPONSE, status="sent")
    make_threads(mailbox, 1, Category.NEEDS_RESPONSE, status="archived")
    old = timezone.now() - timedelta(days=40)
    make_threads(mailbox, 1, Category.PAYMENT_REQUEST, last_message_at=old)
    assert asked_for(mailbox).json()["for_you"]["count"] == 0
    longer = asked_for(mailbox, days=60)
    assert longer.status_code == 200, longer.json()
    assert longer.json()["for_you"]["count"] == 1
    refused = asked_for(mailbox, days=0)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "days"


def test_it_takes_as_many_queries_for_much_mail_as_for_little(mailbox: Mailbox) -> None:
    counts = []
    for number in (SHOWN + 1, 50):
        for category in Category:
            make_threads(mailbox, number, category)
        with firm_scope(mailbox.firm), CaptureQueriesContext(connection) as queries:
            briefing_of(mailbox.account)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 10


@pytest.mark.req("M-23")
def test_only_who_may_read_the_mailbox_sees_it(mailbox: Mailbox) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    owner, other = (
        UserFactory(is_staff=True, member_of=mailbox.firm, member_of__role=Role.ADMIN)
        for _ in range(2)
    )
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(owner=owner, shared=False)
    assert asked_for(mailbox).status_code == 403
    page = f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/"
    answers, leads = {}, {}
    for user in (owner, other):
        client = Client()
        client.force_login(user)
        answers[user] = client.get(page)
        account = client.get(page.replace("/briefing/", "/change/"))
        assert account.status_code == 200
        leads[user] = page in account.content.decode()
    assert leads == {owner: True, other: False}
    assert answers[owner].status_code == 200
    assert b"action_required 0" in answers[owner].content
    assert answers[other].status_code == 403
    assert b"action_required 0" not in answers[other].content


def test_the_page_shows_each_part_and_leads_on(mailbox: Mailbox) -> None:
    prepared(mailbox)
    asked(mailbox)
    mailbox.receive(letter("<b>Bold</b>", "Could you send me the price list, please?"))
    synced(mailbox)
    client = Client()
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    page = client.get(f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/")
    text = page.content.decode()
    assert page.status_code == 200
    for heading in (
        "<h2>Briefing</h2>",
        "Waits for you (2)",
        "Drafts in Gmail (2)",
        "Nothing waits for approval.",
    ):
        assert heading in text
    assert "<b>Bold</b>" not in text
    for model in ("mailthread", "draft"):
        assert f'href="/admin/mail/{model}/' in text
    account = client.get(f"/admin/mail/mailaccount/{mailbox.account.pk}/change/")
    assert f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/" in account.content.decode()
