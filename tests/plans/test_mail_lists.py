"""The lists of mail of those who see every firm read no more of it than a page shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mail.models import MailThread, Message
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.mail import MailAccountFactory
from tests.queue_kit import table_rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-02")]

MAILS = 2_000
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def receive(firm: Firm) -> None:
    account = MailAccountFactory(firm=firm)
    own = {"firm": firm, "account": account}
    threads = MailThread.objects.bulk_create(
        MailThread(
            **own,
            gmail_thread_id=f"t{number}",
            last_message_at=FIRST + timedelta(minutes=number),
        )
        for number in range(MAILS)
    )
    Message.objects.bulk_create(
        Message(
            **own,
            thread=thread,
            gmail_message_id=thread.gmail_thread_id,
            internal_date=thread.last_message_at,
        )
        for thread in threads
    )


@pytest.mark.parametrize(
    ("page", "table", "index"),
    [
        ("/admin/mail/message/", "mail_message", "message_newest"),
        ("/admin/mail/mailthread/", "mail_mailthread", "thread_newest"),
    ],
)
def test_the_newest_mail_of_all_firms_is_found_by_an_index(
    firm: Firm, other_firm: Firm, admin_client: Client, page: str, table: str, index: str
) -> None:
    with all_firms("test"):
        for one in (firm, other_firm):
            receive(one)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as captured:
        assert admin_client.get(page).status_code == 200
    (sql,) = [one["sql"] for one in captured if f'FROM "{table}"' in one["sql"]]
    explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with all_firms("test"):
        plan = " ".join(str(step) for step in table_rows(f"{explain} {sql.replace('%', '%%')}"))
    assert index in plan
    assert "Sort Key" not in plan
    assert "TEMP B-TREE" not in plan
