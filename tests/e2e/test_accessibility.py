"""The operators' pages for people who see little, or use no mouse."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from jobs.models import DeadLetterQueue, JobQueue
from tenants.audit import SERVICE, record_operation
from tenants.models import AuditEntry, Firm
from tests.e2e.conftest import PASSWORD, Open, work
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.queue_kit import rows

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03")]

GRAVE = {"serious", "critical"}
MOST_TABS = 200


def addresses() -> list[str]:
    """Return every kind of page that triage goes through."""
    letter = rows(DeadLetterQueue)[0]
    return [
        "/admin/",
        "/admin/jobs/jobqueue/",
        f"/admin/jobs/jobqueue/{letter.original_job_id}/change/",
        "/admin/jobs/deadletterqueue/",
        f"/admin/jobs/deadletterqueue/{letter.pk}/change/",
        "/admin/jobs/deadletterqueue/groups/",
        "/admin/jobs/schedule/",
        "/admin/jobs/batch/",
        "/admin/mail/message/",
    ]


def grave_faults(page: Any) -> list[str]:
    """Return axe-core's violations on the page, each with its first element."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in GRAVE
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_grave_fault(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue], scheme: Any
) -> None:
    page = open_admin(operator, "desk", scheme)
    faults = {}
    for address in addresses():
        page.goto(address)
        if found := grave_faults(page):
            faults[address] = found
    assert faults == {}


def test_a_form_with_errors_has_no_grave_fault(open_admin: Open, operator: str) -> None:
    page = open_admin(operator)
    page.goto("/admin/jobs/pause/new/")
    page.get_by_role("button", name="Pause work").click()
    expect(page.get_by_role("alert")).to_have_text("This field is required.")
    assert grave_faults(page) == []


def test_a_row_with_a_link_and_a_long_word_reads_well_on_a_dark_phone(
    open_admin: Open, firm: Firm
) -> None:
    UserFactory(username="root", password=PASSWORD, is_staff=True, is_superuser=True)
    facts = {f"digest {number}": "0123456789abcdef" * 9 for number in range(40)}
    record_operation(SERVICE, "test.told", firm_id=firm.pk, target=("firm", firm.pk), after=facts)
    page = open_admin("root", "phone", "dark")
    page.goto(f"/admin/tenants/auditentry/{rows(AuditEntry)[-1].pk}/change/")
    page.get_by_role("link", name="Acme").first.wait_for()
    assert grave_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_the_first_tab_leads_past_the_sidebar(open_admin: Open, operator: str) -> None:
    page = open_admin(operator)
    page.goto("/admin/jobs/pause/new/")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("main").get_by_label("Category")).to_be_focused()


def test_the_keyboard_alone_filters_a_list(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue], firm: Firm
) -> None:
    JobQueueFactory(firm=firm, category="export")
    page = open_admin(operator)
    page.goto("/admin/jobs/jobqueue/?q=type:noop&p=1")
    page.get_by_role("button", name="Filters").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#changelist-filter")).to_be_visible()
    page.locator("#changelist-filter select[name=category]").select_option("export")
    page.get_by_role("button", name="Apply Filters").focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert urlsplit(page.url).query == "q=type%3Anoop&category=export"
    expect(page.locator("#result_list .data-row")).to_have_count(1)
    page.get_by_role("button", name="Filters").click()
    with page.expect_navigation():
        page.get_by_role("link", name="Clear all filters").click()
    expect(page.locator("#result_list .data-row")).to_have_count(1)
    assert "category" not in page.url


def tab_to(page: Any, name: str) -> None:
    """Press Tab until the element of this name has the focus."""
    focused = "(document.activeElement.innerText || document.activeElement.name || '').trim()"
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(focused).endswith(name):
            return
    pytest.fail(f"{name} is not reached by Tab")


def test_the_keyboard_alone_discards_a_failure(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    for name in ("Triage board", "Discard all 2"):
        tab_to(page, name)
        with page.expect_navigation():
            page.keyboard.press("Enter")
    tab_to(page, "reason")
    page.keyboard.type("the customer left")
    tab_to(page, "Discard")
    page.keyboard.press("Enter")
    page.locator("progress").wait_for()
    work()
    page.get_by_text("completed").first.wait_for()
    assert {letter.resolution for letter in rows(DeadLetterQueue)} == {"discarded"}


def test_a_list_is_a_region_with_its_name(open_admin: Open, operator: str, dead_jobs: Any) -> None:
    page = open_admin(operator)
    page.goto("/admin/jobs/deadletterqueue/")
    page.get_by_role("region", name="Dead letters", exact=True).wait_for()
    found = Axe().run(page).response["violations"]
    assert "landmark-unique" not in {one["id"] for one in found}


def test_a_phone_shows_the_name_of_the_row(open_admin: Open, dead_jobs: Any, operator: str) -> None:
    page = open_admin(operator, "phone")
    page.goto(f"/admin/jobs/deadletterqueue/{rows(DeadLetterQueue)[0].pk}/change/")
    expect(page.locator(".queue-crumb:visible")).to_have_text(["Dead letters", "Fatal"])
