"""An import looks up each reference by an index, although the planner has no statistics yet."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mail.models import EventType, MailAccount, MailEvent, MailThread, Message
from mail.services.exports import read
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import table_rows
from tests.support.plans import nodes

pytestmark = [pytest.mark.django_db]

FIRMS, MAILS = 3, 300
# Small tables, such as that of mailboxes, are read as a whole; that is far less than this.
MOST = 10 * MAILS


def filled(slug: str) -> Firm:
    """Return a firm with messages, each of which has a thread and an event."""
    firm = Firm.objects.create(name=slug, slug=slug)
    account = MailAccount.objects.create(firm=firm, address=f"{slug}@firm.example")
    now, own = timezone.now(), {"firm": firm, "account": account}
    threads = [MailThread(**own, gmail_thread_id=f"t{number}") for number in range(MAILS)]
    messages = [
        Message(**own, thread=thread, gmail_message_id=thread.gmail_thread_id, internal_date=now)
        for thread in MailThread.objects.bulk_create(threads)
    ]
    MailEvent.objects.bulk_create(
        MailEvent(**own, thread=one.thread, message=one, event_type=EventType.INGESTED)
        for one in Message.objects.bulk_create(messages)
    )
    return firm


def rows_read(statement: str) -> float:
    """Return how many rows the statement reads on PostgreSQL."""
    ((plan,),) = table_rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.replace('%', '%%')}")
    parsed = json.loads(plan) if isinstance(plan, str) else plan
    scans = [node for node in nodes(parsed[0]["Plan"]) if node.get("Relation Name")]
    seen = ("Actual Rows", "Rows Removed by Filter")
    read_of = [sum(node.get(name, 0) for name in seen) * node["Actual Loops"] for node in scans]
    return float(sum(read_of))


def look_ups_without_index(statement: str) -> list[str]:
    """Return the look-ups of the statement that use no index on SQLite."""
    plan = table_rows(f"EXPLAIN QUERY PLAN {statement.replace('%', '%%')}")
    return [step for *_ids, step in plan if " U0" in step and " USING " not in step]


def test_references_of_an_imported_firm_are_looked_up_one_by_one() -> None:
    with all_firms("test"):
        for number in range(FIRMS):
            filled(f"firm-{number}")
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        imported = filled("imported")
        with CaptureQueriesContext(connection) as captured:
            assert read._drop_loose(imported) == 0
        of_mail = [one["sql"] for one in captured if "mail_" in one["sql"]]
        assert len(of_mail) > 3
        for statement in of_mail:
            if connection.vendor == "postgresql":
                assert rows_read(statement) <= MOST, statement
            else:
                assert look_ups_without_index(statement) == [], statement
