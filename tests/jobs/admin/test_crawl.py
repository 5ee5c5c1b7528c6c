"""Every address of the admin: opened by the wrong user, and by GET where only POST may act."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import URLPattern, reverse
from pytest_django import Settings

from jobs.models import Worker
from tenants.models import FirmOwned, Role
from tests.jobs.admin.conftest import FirmRows, browser_of, url_name
from tests.jobs.admin.pages import operation_url
from tests.queue_kit import table_rows

pytestmark = pytest.mark.req("O-03", "T-03")

# Django's own pages of users are for superusers, who may see every firm.
REGISTERED = [
    model_admin
    for model, model_admin in admin.site._registry.items()
    if model is not get_user_model()
]
QUERIES = [{}, {"firm": "globex"}, {"q": "globex"}, {"q": "secret of globex"}, {"p": "2"}]


def test_every_list_says_what_it_means_to_be_empty() -> None:
    """Of a firm there is always one."""
    silent = [
        model_admin.opts.label
        for model_admin in REGISTERED
        if not getattr(model_admin, "empty_text", "")
    ]
    assert silent == ["tenants.Firm"]


def patterns(model_admin: Any) -> Iterator[URLPattern]:
    """Return the named addresses of a model's pages."""
    return (pattern for pattern in model_admin.get_urls() if getattr(pattern, "name", None))


def addresses(row: Any) -> list[str]:
    """Return every address that belongs to this row."""
    model_admin = admin.site._registry[type(row)]
    return [
        reverse(f"admin:{pattern.name}", args=[row.pk])
        for pattern in patterns(model_admin)
        if "object_id" in str(pattern.pattern)
    ]


def lists() -> list[str]:
    """Return every address that belongs to no row."""
    return [
        reverse(
            f"admin:{pattern.name}", args=["noop"] if "job_type" in str(pattern.pattern) else []
        )
        for model_admin in REGISTERED
        for pattern in patterns(model_admin)
        if "object_id" not in str(pattern.pattern)
    ]


def everything() -> dict[str, list[Any]]:
    """Return all rows of Mailroom's tables, and of those of Django's users."""
    tables = {
        model._meta.db_table
        for model in apps.get_models()
        if model._meta.app_label in ("tenants", "jobs", "mail", "auth")
    }
    return {table: sorted(map(str, table_rows(f"SELECT * FROM {table}"))) for table in tables}


def test_every_kind_of_row_with_a_page_is_crawled(acme: FirmRows) -> None:
    owned = {url_name(a.model) for a in REGISTERED if issubclass(a.model, FirmOwned)}
    crawled = {url_name(row) for row in acme.rows()}
    assert {name for name in owned if not name.startswith("mail_")} <= crawled
    assert len(addresses(acme.dead_letter)) >= 6


def test_every_page_of_another_firms_rows_is_404_and_tells_nothing(
    firm_admin: Client, acme: FirmRows, globex: FirmRows
) -> None:
    for row in globex.rows():
        for address in addresses(row):
            for answer in (
                firm_admin.get(address),
                firm_admin.post(address, {"reason": "because", "seen": "", "payload": "{}"}),
            ):
                assert answer.status_code in (403, 404), address
                assert "globex" not in answer.content.decode().lower(), address
            assert firm_admin.get(address).status_code == 404, address


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_every_list_tells_nothing_of_another_firm(
    firm_admin: Client,
    acme: FirmRows,
    globex: FirmRows,
    query: dict[str, str],
    settings: Settings,
) -> None:
    # With Google's backend, the page that connects mailboxes exists, too.
    settings.GMAIL_BACKEND = "google"
    # 400 is right only if the address has a query.
    answers = {200, 302, 403, 400} if query else {200, 302, 403}
    for address in lists():
        answer = firm_admin.get(address, query)
        assert answer.status_code in answers, address
        # The search box and links repeat what the query asked for.
        text = answer.content.decode()
        if "globex" not in "".join(query.values()):
            assert "globex" not in text.lower(), address
        assert not [
            str(row.pk) for row in globex.rows() if row is not globex.firm and str(row.pk) in text
        ]
        assert "Globex" not in text, address


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
def test_no_link_of_a_page_leads_where_its_reader_may_not_go(acme: FirmRows, role: Role) -> None:
    client = browser_of(acme.firm, role)
    shown = [client.get(operation_url(row, "change")) for row in acme.rows()]
    links = {
        link: page.wsgi_request.path
        for page in shown
        if page.status_code == 200
        for link in re.findall(r'<a[^>]* href="(/admin/[^"#]*)', page.content.decode())
    }
    assert len(links) > 40
    refused = {
        link: page for link, page in links.items() if client.get(unescape(link)).status_code >= 400
    }
    assert refused == {}


def test_foreign_and_unknown_rows_cannot_be_told_apart(
    firm_admin: Client, acme: FirmRows, globex: FirmRows
) -> None:
    foreign, unknown = globex.dead_letter, type(globex.dead_letter)(pk=uuid4())
    for act in ("change", "reprocess", "discard", "escalate"):
        answers = [firm_admin.get(operation_url(row, act)) for row in (foreign, unknown)]
        assert answers[0].status_code == answers[1].status_code == 404
        assert answers[0].content == answers[1].content


@pytest.mark.parametrize("method", ["get", "head"])
def test_reading_changes_nothing(
    staff: Client, acme: FirmRows, live_worker: Worker, method: str
) -> None:
    staff.get(reverse("admin:index"))
    before = everything()
    for row in [*acme.rows(), live_worker]:
        for address in addresses(row):
            assert getattr(staff, method)(address).status_code < 500, address
    for address in lists():
        assert getattr(staff, method)(address).status_code < 500, address
    assert everything() == before


def test_no_act_of_the_admins_frame_runs_on_a_plain_get() -> None:
    acting = [
        f"{model_admin}.{action.action_name}"
        for model_admin in admin.site._registry.values()
        for action in (
            *model_admin._get_base_actions_detail(),
            *model_admin._get_base_actions_row(),
            *model_admin._get_base_actions_list(),
        )
        if action.dialog is None
    ]
    assert acting == []
    assert len(REGISTERED) > 10


@pytest.mark.parametrize("value", ["\x00", "'", "%", "🙂" * 300, "1" * 5000, "\ufffd"])
def test_odd_values_in_a_lists_address_are_no_errors(
    firm_admin: Client, acme: FirmRows, value: str
) -> None:
    names = ["q", "firm", "status", "type", "age", "resolution", "role", "door"]
    for address in lists():
        assert firm_admin.get(address, dict.fromkeys(names, value)).status_code < 500, address


@pytest.mark.parametrize("value", ["\x00", "1" * 5000])
@pytest.mark.parametrize("name", ["p", "o"])
def test_odd_pages_and_orders_in_a_lists_address_are_no_errors(
    firm_admin: Client, acme: FirmRows, name: str, value: str
) -> None:
    for address in lists():
        assert firm_admin.get(address, {name: value}).status_code < 500, address
