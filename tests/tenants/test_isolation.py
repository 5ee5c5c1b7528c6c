"""Two barriers separate firms, the manager's filter and row level security; each is enough alone.

Members of one firm, in each role, send requests to every address of the API and of the admin, and
name rows of another firm. An admin then does the same with either barrier alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Manager
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tenants.models import Firm, Role, TenantManager
from tenants.rls import firm_owned_tables
from tests.jobs.admin.conftest import browser_of
from tests.jobs.api.conftest import key_for
from tests.support.bounds import unbounded
from tests.support.rehearsals import without_process
from tests.tenants.canaries import FIRM_OWNED, TELLING_COUNT, Canaries, fill
from tests.tenants.doors import (
    MODEL_ADMINS,
    Ask,
    admin_aimed,
    admin_lists,
    admin_rows,
    all_rows,
    api_lists,
    api_rows,
    view_on_site,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("T-02", "T-03")]

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="row level security is PostgreSQL's"
)


def without_managers_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TenantManager, "get_queryset", Manager.get_queryset)


def without_row_level_security(_: pytest.MonkeyPatch) -> None:
    """Disable row level security until the test's transaction is rolled back."""
    with connection.cursor() as cursor:
        for table in sorted(firm_owned_tables()):
            cursor.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")


ALONE = [
    pytest.param([without_managers_filter], id="row level security alone", marks=on_postgresql),
    pytest.param([without_row_level_security], id="manager alone", marks=on_postgresql),
]
# With both barriers, the test runs as each role; with one alone, as admin, because no other check
# refuses an admin.
EACH_ROLE = pytest.mark.parametrize(
    ("barriers", "role"),
    [
        *(pytest.param([], role, id=f"as built-{role}") for role in Role),
        *(
            pytest.param(*alone.values, Role.ADMIN, id=f"{alone.id}-admin", marks=alone.marks)
            for alone in ALONE
        ),
    ],
    indirect=["barriers"],
)


@pytest.fixture(params=[pytest.param([], id="as built"), *ALONE])
def barriers(request: pytest.FixtureRequest, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the barriers that the test runs without."""
    for remove in request.param:
        remove(monkeypatch)


@pytest.fixture
def no_barriers(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove both barriers."""
    without_managers_filter(monkeypatch)
    if connection.vendor == "postgresql":
        without_row_level_security(monkeypatch)


@pytest.fixture
def mine(firm: Firm, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Canaries]:
    """Return the rows of the firm that sends the requests, without a limit on their rate."""
    # With a Google client mailboxes can be connected, so the pages for that are visited, too.
    settings.GMAIL_BACKEND = "google"
    settings.GOOGLE_CLIENT_ID = settings.GOOGLE_CLIENT_SECRET = "id"
    # Each refusal would be logged with its traceback.
    monkeypatch.setattr(logging.getLogger("django.request"), "disabled", True)
    with unbounded(), without_process():
        yield fill(firm)


@pytest.fixture
def foreign(other_firm: Firm) -> Canaries:
    """Return the rows of the other firm, of which no answer may show anything."""
    return fill(other_firm, completed=TELLING_COUNT)


class Member:
    """A member of the firm that asks, by API key or in a browser."""

    def __init__(self, client: Client, **headers: str) -> None:
        self._client = client
        self._headers = headers

    def ask(self, ask: Ask) -> HttpResponse:
        """Return the answer."""
        return ask.of(self._client, **self._headers)

    def is_refused(self, ask: Ask) -> bool:
        """Say whether the answer is 403."""
        return self.ask(ask).status_code == HTTPStatus.FORBIDDEN

    def leaks(self, asks: Iterable[Ask], rows: Canaries, *statuses: HTTPStatus) -> list[str]:
        """Return the answers that give something of the firm away, or have none of the statuses."""
        found = []
        for ask in asks:
            answer = self.ask(ask)
            if answer.status_code not in statuses:
                found.append(f"{ask}: answers {answer.status_code}")
            found += [f"{ask}: tells {trace}" for trace in rows.traces_in(answer, *ask.asked)]
        return found


def by_key(firm: Firm, role: Role) -> Member:
    return Member(Client(), Authorization=f"Bearer {key_for(firm, role)}")


def in_browser(firm: Firm, role: Role) -> Member:
    return Member(browser_of(firm, role))


@EACH_ROLE
def test_no_operation_of_the_api_finds_or_tells_of_another_firms_rows(
    barriers: None, mine: Canaries, foreign: Canaries, role: Role
) -> None:
    member, before = by_key(mine.firm, role), foreign.stored()
    assert member.leaks(api_rows(foreign), foreign, HTTPStatus.NOT_FOUND) == []
    statuses = (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
    for theirs, own in zip(api_lists(foreign), api_lists(mine), strict=True):
        leaks = member.leaks([theirs], foreign, *statuses)
        # 403 gives nothing away if the role may not read this list in its own firm either.
        assert leaks == [] or (leaks == [f"{theirs}: answers 403"] and member.is_refused(own)), (
            leaks
        )
    assert foreign.stored() == before


@EACH_ROLE
def test_no_page_or_act_of_the_admin_finds_or_tells_of_another_firms_rows(
    barriers: None, mine: Canaries, foreign: Canaries, role: Role
) -> None:
    member, before = in_browser(mine.firm, role), foreign.stored()
    found = []
    for theirs, own in zip(admin_rows(foreign), admin_rows(mine), strict=True):
        leaks = member.leaks([theirs], foreign, HTTPStatus.NOT_FOUND)
        # 403 gives nothing away if the role may not open this page for its own firm's row either.
        if leaks != [f"{theirs}: answers 403"] or not member.is_refused(own):
            found += leaks
    found += member.leaks(map(view_on_site, all_rows(foreign)), foreign, HTTPStatus.NOT_FOUND)
    opened = (HTTPStatus.OK, HTTPStatus.FOUND, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
    found += member.leaks(admin_lists(), foreign, *opened)
    assert found == []
    assert foreign.stored() == before


def test_no_way_to_aim_at_another_firms_rows_in_the_admin_hits(
    barriers: None, mine: Canaries, foreign: Canaries
) -> None:
    member, before = in_browser(mine.firm, Role.ADMIN), foreign.stored()
    statuses = [HTTPStatus.OK, HTTPStatus.FOUND, HTTPStatus.BAD_REQUEST]
    refusals = [HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED]
    assert member.leaks(admin_aimed(foreign), foreign, *statuses, *refusals) == []
    assert foreign.stored() == before


def test_a_row_of_another_firm_looks_like_none_wherever_the_admin_leads(
    barriers: None, mine: Canaries, foreign: Canaries
) -> None:
    member = in_browser(mine.firm, Role.ADMIN)
    for row in all_rows(foreign):
        unknown = type(row)(pk=uuid4())
        answers = [member.ask(view_on_site(one)) for one in (row, unknown)]
        told = [
            answer.content.decode().replace(str(one.pk), "ID")
            for answer, one in zip(answers, (row, unknown), strict=True)
        ]
        assert told[0] == told[1], row._meta.label


def test_figures_are_those_of_ones_own_firm(
    barriers: None, mine: Canaries, foreign: Canaries
) -> None:
    answer: Any = by_key(mine.firm, Role.VIEWER).ask(Ask("get", "/api/v1/jobs/admin/queues/"))
    figures = answer.json()
    assert figures["totals"]["completed"] == 0
    assert figures["totals"]["pending"] == 1
    assert figures["dead_letters_open"] == 1
    overview: Any = in_browser(mine.firm, Role.OPERATOR).ask(Ask("get", reverse("admin:index")))
    counted = {line.name: [cell.value for cell in line.cells] for line in overview.context["lines"]}
    assert counted.pop("ingestion") == ["1", "", "", "", "", "", "1", ""]
    assert not any(text for texts in counted.values() for text in texts)


def test_ones_own_rows_are_found_and_told_of(mine: Canaries, foreign: Canaries) -> None:
    member = in_browser(mine.firm, Role.ADMIN)
    for model_admin in MODEL_ADMINS:
        name = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_change"
        for row in mine.of(model_admin.model):
            page = member.ask(Ask("get", reverse(name, args=[row.pk])))
            assert page.status_code == HTTPStatus.OK, name
            assert mine.firm.slug in mine.traces_in(page), name
            # A page that shows a label of a list as a pair, of value and text, has a fault.
            assert b"(&#x27;" not in page.content, name
    by_hand = by_key(mine.firm, Role.DEVELOPER)
    for ask in api_rows(mine):
        # Signing keys, exports and other people's preferences are for admins.
        for_admins = ("/signing-key/", "/download/")
        if (
            ask.method != "get"
            or ask.address.endswith(for_admins)
            or "-preferences/" in ask.address
        ):
            continue
        answer = by_hand.ask(ask)
        assert answer.status_code == HTTPStatus.OK, ask
        assert mine.firm.slug in mine.traces_in(answer), ask


def test_without_any_barrier_the_same_questions_tell_of_every_table(
    no_barriers: None, mine: Canaries, foreign: Canaries
) -> None:
    told = " ".join(in_browser(mine.firm, Role.ADMIN).leaks(admin_lists(), foreign, *HTTPStatus))
    silent = {
        model_admin.opts.model_name
        for model_admin in MODEL_ADMINS
        if model_admin.model in FIRM_OWNED and f"/{model_admin.opts.model_name}/" not in told
    }
    # The audit log and preferences have a third check: whether the reader is an admin of the firm.
    assert silent == {"auditentry", "notificationpreference"}
    found = by_key(mine.firm, Role.VIEWER).leaks(api_lists(foreign), foreign, *HTTPStatus)
    for resource in ("jobs", "dlq", "locks", "pauses", "schedules"):
        assert any(f"/{resource}/ " in leak for leak in found), resource
