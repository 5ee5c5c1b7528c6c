"""Saved views: named filters above a list, for oneself or shared with the firm."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from uuid_utils.compat import uuid7

from jobs.models import SavedView
from jobs.operations import saved_views
from tenants.models import Role
from tenants.scope import all_firms
from tests.factories.tenants import MembershipFactory, UserFactory, new_member
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-08")]

LISTS = ("jobqueue", "deadletterqueue")


def address(page: str, name: str = "jobqueue") -> str:
    return reverse(f"admin:jobs_{name}_{page}")


def save(
    client: Client,
    name: str,
    listing: str = "status=pending",
    *,
    shared: bool = False,
    of: str = "",
) -> Any:
    body = {"list": listing, "name": name, **({"shared": "on"} if shared else {})}
    return client.post(address("views", of or "jobqueue"), body)


def shown(client: Client, of: str = "jobqueue", **query: str) -> dict[str, str]:
    """Return the links above the list, by name."""
    answer = client.get(address("changelist", of), query)
    assert answer.status_code == 200
    text = answer.content.decode()
    views = {view.name: href for view, href, _ in answer.context["saved_views"]}
    assert all(f">{name}</a>" in text for name in views)
    return views


@pytest.mark.parametrize("of", LISTS)
def test_filters_are_saved_under_a_name_and_shown_as_a_link(operator: Client, of: str) -> None:
    field = "status" if of == "jobqueue" else "resolution"
    value = "pending" if of == "jobqueue" else "open"
    query = urlencode({field: value, "category": "sync", "q": "", "p": "2"})
    query += f"&before={uuid7()}" if of == "jobqueue" else ""
    page = operator.get(f"{address('views', of)}?{query}")
    assert f"{field}: {value}, category: sync" in page.content.decode()
    assert "p: 2" not in page.content.decode()
    answer = save(operator, "What waits & stays", query, of=of)
    link = f"{address('changelist', of)}?{urlencode({field: value, 'category': 'sync'})}"
    assert (answer.status_code, answer["Location"]) == (302, link)
    text = operator.get(link).content.decode()
    assert "What waits &amp; stays</a>" in text
    assert 'aria-current="true">What waits' in text
    other = LISTS[1 - LISTS.index(of)]
    assert shown(operator, other) == {}


def test_a_name_that_is_there_stands_for_the_new_filters(operator: Client) -> None:
    save(operator, "mine")
    save(operator, " mine ", "status=dlq", shared=True)
    assert shown(operator) == {"mine": f"{address('changelist')}?status=dlq"}
    (view,) = rows(SavedView)
    assert view.shared


@pytest.mark.parametrize(
    "listing",
    [
        "",
        "status=nope",
        "colour=red",
        "payload__contains=x",
        "status=pending&status=dlq",
        "firm=nowhere",
        "q=" + "a" * 1000,
    ],
)
def test_what_the_list_refuses_is_not_saved(operator: Client, listing: str) -> None:
    assert save(operator, "mine", listing).status_code == 400
    assert rows(SavedView) == []


@pytest.mark.django_db(transaction=True)
def test_a_view_saved_before_the_filter_was_renamed_shows_the_same_list(operator: Client) -> None:
    chosen = {"category": "sync", "resolution": "open"}
    save(operator, "mine", urlencode(chosen), of="deadletterqueue")
    save(operator, "running", "status=processing")
    try:
        call_command("migrate", "jobs", "0042", verbosity=0)
        stored = [view.parameters for view in rows(SavedView)]
        assert {"category": "sync", "decision": "open"} in stored
        assert {"status": "processing"} in stored
    finally:
        call_command("migrate", "jobs", verbosity=0)
    assert shown(operator, "deadletterqueue") == {
        "mine": f"{address('changelist', 'deadletterqueue')}?{urlencode(chosen)}"
    }


@pytest.mark.parametrize("name", ["", "  ", "x" * 61], ids=["none", "blanks", "long"])
def test_a_view_has_a_name(operator: Client, name: str) -> None:
    assert save(operator, name).status_code == 400
    assert rows(SavedView) == []


def test_the_number_of_views_is_bounded(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST", 2)
    assert [save(operator, name).status_code for name in "abca"] == [302, 302, 400, 302]
    assert list(shown(operator)) == ["a", "b"]


@pytest.mark.req("T-03")
def test_a_view_is_its_owners_unless_it_is_shared_with_the_firm(
    operator: Client, acme: FirmRows, globex: FirmRows, staff: Client
) -> None:
    save(operator, "mine")
    save(operator, "ours", "status=dlq", shared=True)
    colleague, theirs = (browser_of(rows.firm, Role.ADMIN) for rows in (acme, globex))
    assert list(shown(operator)) == ["mine", "ours"]
    assert list(shown(colleague)) == ["ours"]
    for other in (theirs, staff):
        assert shown(other) == {}
        assert "ours" not in other.get(address("views")).content.decode()


def test_viewers_save_for_themselves_alone(member: Client) -> None:
    assert save(member, "ours", shared=True).status_code == 400
    assert save(member, "mine").status_code == 302
    assert list(shown(member)) == ["mine"]


@pytest.mark.req("T-03")
def test_a_view_of_one_firm_is_not_shared_with_another(acme: FirmRows, globex: FirmRows) -> None:
    both = UserFactory(username="both", is_staff=True)
    with all_firms("test"):
        for one in (acme, globex):
            MembershipFactory(firm=one.firm, user=both, role=Role.OPERATOR)
    client = Client()
    client.force_login(both)
    assert save(client, "ours", shared=True).status_code == 400
    assert save(client, "ours", "firm=globex", shared=True).status_code == 302
    assert shown(browser_of(acme.firm, Role.ADMIN)) == {}
    assert list(shown(browser_of(globex.firm, Role.VIEWER))) == ["ours"]


def test_platform_staff_share_among_themselves(staff: Client, operator: Client) -> None:
    assert save(staff, "night shift", "q=type:sync", shared=True).status_code == 302
    colleague = Client()
    colleague.force_login(UserFactory(username="root2", platform_staff=True))
    assert list(shown(colleague)) == ["night shift"]
    assert shown(operator) == {}


def test_a_view_is_deleted_by_its_owner_or_an_admin_of_the_firm(
    operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    save(operator, "mine")
    save(operator, "ours", "status=dlq", shared=True)
    mine, ours = sorted(rows(SavedView), key=lambda view: str(view.name))

    def delete(client: Client, view: SavedView) -> int:
        return client.post(address("views"), {"delete": str(view.pk)}).status_code

    colleague, admin = Client(), browser_of(acme.firm, Role.ADMIN)
    colleague.force_login(new_member(acme.firm, Role.OPERATOR, "eve"))
    for client, view in (
        (colleague, ours),
        (admin, mine),
        (browser_of(globex.firm, Role.ADMIN), ours),
    ):
        assert delete(client, view) == 404
    assert len(rows(SavedView)) == 2
    assert [delete(admin, ours), delete(operator, mine), delete(operator, mine)] == [302, 302, 404]
    assert rows(SavedView) == []


def test_views_go_with_their_owner(operator: Client) -> None:
    save(operator, "ours", shared=True)
    (view,) = rows(SavedView)
    with all_firms("test"):
        view.user.delete()
    assert rows(SavedView) == []


def test_who_is_a_member_of_no_active_firm_saves_none(stranger: Client) -> None:
    assert save(stranger, "mine").status_code == 403
    assert rows(SavedView) == []
