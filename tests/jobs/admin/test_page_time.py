"""A page reads the database's time once, however many ages it shows, under WSGI and ASGI."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.admin.base import page_time
from jobs.engine import dialects
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.jobs.admin.conftest import FirmRows
from tests.queue_kit import later

Get = Callable[[str], str]


@pytest.fixture(params=["wsgi", "asgi"])
def get(request: pytest.FixtureRequest, acme: FirmRows) -> Get:
    """Return a function that opens a page, as a member, in the way of the interface."""
    user = acme.membership.user
    if request.param == "wsgi":
        client = Client()
        client.force_login(user)
        return lambda path: client.get(path).content.decode()
    asynchronous = AsyncClient()
    asynchronous.force_login(user)
    return lambda path: async_to_sync(asynchronous.get)(path).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("model", ["jobqueue", "deadletterqueue"])
def test_the_time_is_read_once_for_all_rows(get: Get, acme: FirmRows, model: str) -> None:
    for _ in range(5):
        DeadLetterQueueFactory(original_job=JobQueueFactory(firm=acme.firm, status="dlq"))
    with CaptureQueriesContext(connection) as queries:
        shown = get(reverse(f"admin:jobs_{model}_changelist"))
    assert shown.count("<time ") >= 6
    reading = f"SELECT {dialects.current().now_sql()}"
    assert len([one for one in queries if one["sql"] == reading]) == 1


@pytest.mark.django_db
def test_a_later_page_tells_a_later_time(get: Get, acme: FirmRows) -> None:
    address = reverse("admin:jobs_pause_changelist")
    assert ">just now<" in get(address)
    with later(7200):
        assert "2 h ago" in get(address)


@pytest.mark.django_db
def test_the_time_is_read_again_in_the_next_scope(firm: Firm) -> None:
    with firm_scope(firm):
        first = page_time()
        assert page_time() == first
    with later(3600) as now, firm_scope(firm):
        assert page_time() == now
    with later(7200) as now:
        assert page_time() == now
