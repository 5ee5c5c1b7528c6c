"""Operations on a row that somebody else has deleted answer that it is gone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.test import Client

from mail.api.rules import Rules
from mail.errors import RowGone
from mail.models import ReplyStyle
from mail.services.agents import profiles
from mail.services.drafting import reply_rows
from mail.services.rules import directions, operations, routing_operations
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.jobs.admin.pages import audit_entries
from tests.jobs.api.conftest import key_for
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True)]

BY_SUBJECT = {"type": "subject_contains", "value": "invoice"}


def rule(firm: Firm) -> Any:
    return operations.create_rule(
        firm.pk, name="Invoices", conditions=BY_SUBJECT, category="payment_request"
    )


def direction(firm: Firm) -> Any:
    return directions.create_direction(firm.pk, text="Archive newsletters")


def routing_rule(firm: Firm) -> Any:
    return routing_operations.create_routing_rule(firm.pk, name="All", match={"all": True})


def profile(firm: Firm) -> Any:
    return profiles.create_profile(firm.pk, name="shop", instructions="Answer.")


def style(firm: Firm) -> Any:
    return reply_rows.create_reply_row(ReplyStyle, firm.pk, name="curt")


@pytest.mark.parametrize(
    ("make", "delete", "operate"),
    [
        (rule, operations.delete_rule, operations.delete_rule),
        (rule, operations.delete_rule, operations.change_rule),
        (rule, operations.delete_rule, operations.enable_rule),
        (direction, directions.delete_direction, directions.delete_direction),
        (direction, directions.delete_direction, directions.change_direction),
        (
            routing_rule,
            routing_operations.delete_routing_rule,
            routing_operations.delete_routing_rule,
        ),
        (
            routing_rule,
            routing_operations.delete_routing_rule,
            routing_operations.change_routing_rule,
        ),
        (profile, profiles.delete_profile, profiles.delete_profile),
        (profile, profiles.delete_profile, profiles.change_profile),
        (style, reply_rows.delete_reply_row, reply_rows.delete_reply_row),
        (style, reply_rows.delete_reply_row, reply_rows.change_reply_row),
    ],
)
def test_it_is_said_to_be_gone_and_nothing_is_audited(
    firm: Firm, make: Callable[[Firm], Any], delete: Any, operate: Any
) -> None:
    row = make(firm)
    delete(row)
    kept = len(audit_entries(row.pk))
    with pytest.raises(RowGone, match="is deleted"):
        operate(row)
    assert len(audit_entries(row.pk)) == kept


@postgresql_only
def test_who_deletes_it_at_the_same_moment_waits_and_is_told(firm: Firm) -> None:
    row = rule(firm)

    def delete() -> None:
        try:
            operations.delete_rule(row)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with firm_scope(firm):
            operations.delete_rule(row)
            kept = len(audit_entries(row.pk))
            other = pool.submit(delete)
            wait_until(is_waited_for, "the other one waits")
        with pytest.raises(RowGone, match="is deleted"):
            other.result()
    assert len(audit_entries(row.pk)) == kept


def test_over_rest_an_operation_on_a_deleted_row_is_a_conflict(firm: Firm) -> None:
    row = rule(firm)
    operations.delete_rule(row)
    headers = {"Authorization": f"Bearer {key_for(firm, Role.ADMIN)}"}
    # The request found the rule before the other request deleted it.
    with patch.object(Rules, "get_object", return_value=row):
        answer = Client().post(
            f"/api/v1/mail/rules/{row.pk}/delete/",
            {},
            content_type="application/json",
            headers=headers,
        )
    assert (answer.status_code, answer.json()["detail"]) == (409, "The rule is deleted.")
