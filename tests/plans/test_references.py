"""Who deletes mail does not wait while a whole table is searched for what refers to it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from mail.models import Action, Approval, Draft, MailThread
from tenants.scope import all_firms
from tests.plans.test_batches import tables_read

pytestmark = [pytest.mark.django_db, pytest.mark.req("U-05", "T-04")]


@pytest.mark.parametrize(
    ("model", "reference", "index"),
    [
        (MailThread, "classified_upto_id", "thread_classified_upto"),
        (Action, "decision_id", "action_of_decision"),
        (Action, "rule_id", "action_of_rule"),
        (Approval, "action_id", "approval_of_action"),
        (Approval, "outbound_id", "approval_of_outbound"),
        (Draft, "llm_call_id", "draft_of_llm_call"),
        (Draft, "replaces_id", "draft_replaces"),
    ],
)
def test_what_refers_to_a_deleted_row_is_found_by_an_index(
    model: Any, reference: str, index: str
) -> None:
    table, row_id = model._meta.db_table, uuid4()
    # For each row that is deleted, the database itself asks this.
    sql = f"SELECT 1 FROM {table} WHERE {reference} = '{row_id}'"
    with all_firms("test"), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Small tables are read as a whole otherwise.
            cursor.execute("SET LOCAL enable_seqscan = off")
        read = tables_read(sql)
    assert index in " ".join(read)
