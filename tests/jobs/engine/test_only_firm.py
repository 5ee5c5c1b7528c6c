"""An enqueue that names no firm: which firm the job gets, and how many queries that takes."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.owner import only_firm_id
from jobs.queue import enqueue
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.tenants import FirmFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def no_firm(db: None) -> None:
    with all_firms("test"):
        Firm.objects.all().delete()


def test_without_firms_of_the_projects_own_it_is_the_reserved_one(system_firm: Firm) -> None:
    assert enqueue("noop").job.firm_id == system_firm.pk


@pytest.mark.usefixtures("no_firm")
def test_where_a_flush_took_the_reserved_firm_away_it_is_made_again() -> None:
    assert enqueue("noop").job.firm_id == Firm.objects.get().pk
    assert Firm.objects.get().is_system


@pytest.mark.usefixtures("no_firm")
@pytest.mark.parametrize("reserved_first", [True, False])
def test_the_projects_only_firm_comes_before_the_reserved_one(reserved_first: bool) -> None:
    if reserved_first:
        Firm.objects.system()
    only = FirmFactory(name="Acme", slug="acme")
    if not reserved_first:
        Firm.objects.system()
    assert only_firm_id() == only.pk
    FirmFactory(name="Globex", slug="globex")
    assert only_firm_id() is None


def test_to_find_it_takes_one_query(system_firm: Firm) -> None:
    enqueue("noop")
    with CaptureQueriesContext(connection) as asked:
        enqueue("noop")
    # A notification is a SELECT too, and does not come with every job.
    queries = [query["sql"] for query in asked if query["sql"].startswith("SELECT")]
    about_firms = [query for query in queries if "tenants_firm" in query]
    assert len(about_firms) == 1
