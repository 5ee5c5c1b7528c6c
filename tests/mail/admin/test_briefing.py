"""The briefing's page: its counts lead to the threads that they count."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from mail.llm.base import Category
from mail.models import CATEGORY_CHOICES, ThreadStatus
from tenants.models import Role
from tests.factories.mail import MailAccountFactory, MailThreadFactory
from tests.factories.tenants import UserFactory
from tests.mail.mail_kit import Mailbox

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-03")]


@pytest.fixture
def browser(mailbox: Mailbox) -> Client:
    client = Client()
    client.force_login(
        UserFactory(is_staff=True, member_of=mailbox.firm, member_of__role=Role.OPERATOR)
    )
    return client


def links_of(browser: Client, mailbox: Mailbox) -> list[tuple[str, int]]:
    """Return where each count of the briefing leads, and the count."""
    page = browser.get(f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/")
    found = re.findall(r'href="(/admin/mail/mailthread/\?[^"]+)">([0-9,]+)<', page.content.decode())
    return [(unescape(href), int(count)) for href, count in found]


def test_each_count_leads_to_the_threads_that_it_counts(mailbox: Mailbox, browser: Client) -> None:
    now = timezone.now()
    asks = {"classification": Category.NEEDS_RESPONSE, "last_message_at": now}
    mine = {"account": mailbox.account, **asks}
    expected = MailThreadFactory(**mine)
    MailThreadFactory(**mine | {"classification": Category.FYI})
    MailThreadFactory(**mine, status=ThreadStatus.ARCHIVED)
    MailThreadFactory(**mine | {"last_message_at": now - timedelta(days=31)})
    MailThreadFactory(account=MailAccountFactory(firm=mailbox.firm), **asks)
    links = links_of(browser, mailbox)
    assert len(links) == len(CATEGORY_CHOICES)
    shown = {
        href: [row.pk for row in browser.get(href).context["cl"].result_list] for href, _ in links
    }
    assert [len(shown[href]) for href, _ in links] == [count for _, count in links]
    (asking,) = [rows for href, rows in shown.items() if "needs_response" in href]
    assert asking == [expected.pk]


@pytest.mark.parametrize("other", [str(UUID(int=1)), "no id"])
def test_the_list_refuses_the_briefing_of_no_mailbox(browser: Client, other: str) -> None:
    answer = browser.get("/admin/mail/mailthread/", {"briefing": other})
    assert answer.status_code == 400
    assert "There is no such mailbox." in answer.content.decode()


def test_the_list_shows_whose_briefing_it_is(mailbox: Mailbox, browser: Client) -> None:
    answer = browser.get("/admin/mail/mailthread/", {"briefing": str(mailbox.account.pk)})
    assert "Briefing of" in answer.content.decode()
    assert f">{mailbox.account.address}</option>" in re.sub(
        r"\s+(?=<)|(?<=>)\s+", "", answer.content.decode()
    )
