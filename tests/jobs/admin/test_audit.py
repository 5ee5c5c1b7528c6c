"""The audit log and the API keys in the admin."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tenants.audit import SERVICE, record_operation
from tenants.models import ApiKey, AuditEntry, Role
from tenants.scope import all_firms
from tests.factories.tenants import MembershipFactory
from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import audit_entries, now, operation_url, submit

pytestmark = pytest.mark.req("O-03")


@pytest.mark.req("T-05")
def test_the_log_is_for_the_firms_admins_and_read_only(
    operator: Client, firm_admin: Client, staff: Client, acme: FirmRows, globex: FirmRows
) -> None:
    listing = reverse("admin:tenants_auditentry_changelist")
    submit(operator, acme.dead_letter, "discard", reason="customer <b>left</b>")
    assert operator.get(listing).status_code == 403
    assert operator.get(operation_url(acme.audit_entry, "change")).status_code == 404
    text = firm_admin.get(listing).content.decode()
    assert "dead_letter.discard" in text
    assert "customer &lt;b&gt;left" in text
    assert "globex" not in text
    assert firm_admin.get(operation_url(globex.audit_entry, "change")).status_code == 404
    page = firm_admin.get(operation_url(audit_entries(acme.dead_letter.pk)[0], "change"))
    # Phones show each value with its label, because tables have no header there.
    resolution = '<td data-label="Before">-</td><td data-label="After">discarded</td>'
    changes = (f'<th scope="row">Resolution</th>{resolution}', "left&lt;/b&gt;")
    assert all(one in page.content.decode() for one in changes)
    for client in (firm_admin, staff):
        assert (
            client.post(operation_url(acme.audit_entry, "change"), {"reason": "x"}).status_code
            == 403
        )
        assert client.post(operation_url(acme.audit_entry, "delete")).status_code == 403
    assert staff.get(operation_url(globex.audit_entry, "change")).status_code == 200


def record(rows: FirmRows, **changes: Any) -> AuditEntry:
    target = uuid4()
    with all_firms("test"):
        record_operation(
            SERVICE, "test.act", firm_id=rows.firm.pk, target=("job", target), **changes
        )
    return audit_entries(target)[0]


@pytest.mark.req("T-05")
def test_what_an_act_changed_is_a_line_for_each_value(firm_admin: Client, acme: FirmRows) -> None:
    entry = record(
        acme,
        before={"priority": 2, "payload": {"name": "<Ada>"}, "until": None},
        after={"priority": 0, "payload": {"name": "Grace"}, "everywhere": True, "limit_key": ""},
    )
    text = firm_admin.get(operation_url(entry, "change")).content.decode()
    values = '<td data-label="Before">(.*?)</td><td data-label="After">(.*?)</td>'
    lines = re.findall(f'<th scope="row">(.*?)</th>{values}', text, re.DOTALL)
    told = [[re.sub("<.*?>", "", part) for part in line] for line in lines]
    # Sorted, because the database determines the order of the values.
    assert sorted(told) == [
        ["Everywhere", "-", "yes"],
        ["Limit key", "-", "-"],
        [
            "Payload",
            "{\n  &quot;name&quot;: &quot;&lt;Ada&gt;&quot;\n}",
            "{\n  &quot;name&quot;: &quot;Grace&quot;\n}",
        ],
        ["Priority", "2", "0"],
        ["Until", "-", "-"],
    ]
    empty = record(acme)
    assert "queue-changes" not in firm_admin.get(operation_url(empty, "change")).content.decode()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"door": "service"}, 1),
        ({"door": "admin"}, 0),
        ({"age": "1h"}, 1),
        ({"q": "api_key.create"}, 1),
        ({"q": "nobody"}, 0),
    ],
)
@pytest.mark.req("T-05")
def test_the_log_is_filtered_and_searched(
    firm_admin: Client, acme: FirmRows, query: dict[str, str], count: int
) -> None:
    listing = reverse("admin:tenants_auditentry_changelist")
    assert len(firm_admin.get(listing, query).context["cl"].result_list) == count


@pytest.mark.req("T-05")
def test_an_admin_of_one_firm_reads_no_log_of_a_firm_in_which_they_only_look(
    firm_admin: Client, acme: FirmRows, globex: FirmRows
) -> None:
    admin = get_user_model().objects.get(username="admin@acme.example")
    MembershipFactory(firm=globex.firm, user=admin, role=Role.VIEWER)
    shown = firm_admin.get(reverse("admin:tenants_auditentry_changelist")).context["cl"]
    assert {entry.firm_id for entry in shown.result_list} == {acme.firm.pk}
    assert firm_admin.get(operation_url(globex.audit_entry, "change")).status_code == 404


def test_a_keys_state_is_shown(member: Client, acme: FirmRows) -> None:
    listing = reverse("admin:tenants_apikey_changelist")
    past = timezone.now() - timedelta(days=1)
    assert "valid" in member.get(listing).content.decode()
    for columns, state in (({"expires_at": past}, "expired"), ({"revoked_at": past}, "revoked")):
        with all_firms("test"):
            ApiKey.objects.filter(pk=acme.api_key.pk).update(**columns)
        assert state in member.get(listing).content.decode()


def test_a_key_is_revoked_once(firm_admin: Client, acme: FirmRows) -> None:
    submit(firm_admin, acme.api_key, "revoke", reason="left the firm")
    assert now(acme.api_key).revoked_at is not None
    assert firm_admin.get(operation_url(acme.api_key, "revoke")).status_code == 409
    made, revoked = audit_entries(acme.api_key.pk)
    assert (made.act, revoked.act, revoked.reason) == (
        "api_key.create",
        "api_key.revoke",
        "left the firm",
    )
    assert revoked.before == made.after
