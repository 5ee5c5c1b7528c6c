"""A user of one firm never sees another firm's rows, filter values or counts."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from jobs.models import Worker
from tenants.models import Firm, FirmOwned, Role
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.admin.conftest import FirmRows

pytestmark = pytest.mark.req("T-03")

# Every list of rows that belong to firms, whichever app registers it.
LISTS = sorted(
    f"{model._meta.app_label}_{model._meta.model_name}"
    for model in admin.site._registry
    if issubclass(model, FirmOwned) or model is Firm
)


def traces_of(rows: FirmRows) -> list[str]:
    """Return the texts that would reveal the firm on a page."""
    ids = [str(row.pk) for row in rows.rows() if row is not rows.firm]
    return [*ids, rows.firm.name, rows.firm.slug, rows.membership.user.username]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("query", [{}, {"firm": "globex"}, {"q": "globex"}])
def test_lists_hold_nothing_of_another_firm(
    member: Client, acme: FirmRows, globex: FirmRows, name: str, query: dict[str, str]
) -> None:
    response = member.get(reverse(f"admin:{name}_changelist"), query, follow=True)
    # 400 is right only if the address has a query.
    assert response.status_code in ({200, 403, 400} if query else {200, 403})
    # The search box repeats what the query asked for.
    messages_of = {trace for trace in traces_of(globex) if trace in response.content.decode()}
    assert messages_of <= set(query.values())


@pytest.mark.parametrize("name", ["jobs_jobqueue", "jobs_deadletterqueue", "jobs_concurrencylock"])
def test_asking_for_another_firm_by_its_id_is_refused(
    member: Client, acme: FirmRows, globex: FirmRows, name: str
) -> None:
    query = {"firm__id__exact": str(globex.firm.pk)}
    response = member.get(reverse(f"admin:{name}_changelist"), query)
    assert response.status_code == 400
    assert "cl" not in response.context


@pytest.mark.parametrize("position", range(10))
@pytest.mark.parametrize("act", ["change", "delete", "history"])
def test_another_firms_pages_answer_404(
    member: Client, acme: FirmRows, globex: FirmRows, position: int, act: str
) -> None:
    name, row_id = globex.pages()[position]
    assert member.get(reverse(f"admin:{name}_{act}", args=[row_id])).status_code == 404
    assert member.post(reverse(f"admin:{name}_{act}", args=[row_id])).status_code in (403, 404)


def test_own_pages_open_and_hold_nothing_of_another_firm(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    for name, row_id in acme.pages():
        response = member.get(reverse(f"admin:{name}_change", args=[row_id]))
        assert response.status_code == 200, name
        text = response.content.decode()
        assert not [trace for trace in traces_of(globex) if trace in text], name


def test_search_by_another_firms_id_finds_nothing(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    response = member.get(reverse("admin:jobs_jobqueue_changelist"), {"q": str(globex.dead.pk)})
    assert list(response.context["cl"].result_list) == []


def test_the_overview_counts_own_jobs_alone(
    member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    response = member.get(reverse("admin:index"))
    lines = {line.name: [cell.value for cell in line.cells] for line in response.context["lines"]}
    assert lines["maintenance"] == ["1", "", "", "", "7", "", "", ""]
    assert lines["export"] == ["", "", "", "", "", "", "1", ""]


def test_platform_staff_sees_both_firms(staff: Client, acme: FirmRows, globex: FirmRows) -> None:
    for rows in (acme, globex):
        for name, row_id in rows.pages():
            address = reverse(f"admin:{name}_change", args=[row_id])
            assert staff.get(address).status_code == 200, name


def test_a_member_of_two_firms_sees_both(member: Client, acme: FirmRows, globex: FirmRows) -> None:
    MembershipFactory(firm=globex.firm, user=acme.membership.user, role=Role.VIEWER)
    response = member.get(reverse("admin:jobs_jobqueue_changelist"))
    assert {job.firm_id for job in response.context["cl"].result_list} == {
        acme.firm.pk,
        globex.firm.pk,
    }
    assert "Globex" in response.content.decode()


def test_workers_are_shown_to_platform_staff_alone(
    member: Client, staff: Client, live_worker: Worker
) -> None:
    pages = [
        reverse("admin:jobs_worker_changelist"),
        reverse("admin:jobs_worker_change", args=[live_worker.pk]),
    ]
    assert [staff.get(page).status_code for page in pages] == [200, 200]
    assert [member.get(page).status_code for page in pages] == [403, 403]


def test_staff_without_a_firm_may_look_at_nothing(stranger: Client, acme: FirmRows) -> None:
    for name in LISTS:
        assert stranger.get(reverse(f"admin:{name}_changelist")).status_code == 403
    overview = stranger.get(reverse("admin:index"))
    assert not any(cell.value for line in overview.context["lines"] for cell in line.cells)


def test_users_who_are_not_staff_are_asked_to_sign_in(acme: FirmRows) -> None:
    user = UserFactory(username="eve")
    client = Client()
    client.force_login(user)
    for name in LISTS:
        assert client.get(reverse(f"admin:{name}_changelist")).status_code == 302


def test_the_sidebar_offers_what_the_user_may_open(
    member: Client, staff: Client, acme: FirmRows
) -> None:
    def links(client: Client) -> list[str]:
        groups = client.get(reverse("admin:index")).context["sidebar_navigation"]
        return [item["link"] for group in groups for item in group["items"]]

    assert reverse("admin:jobs_worker_changelist") in links(staff)
    assert reverse("admin:jobs_worker_changelist") not in links(member)
    for link in links(member):
        assert member.get(link).status_code == 200
