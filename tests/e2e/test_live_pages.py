"""Pages keep themselves up to date, and leave alone what somebody works in."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Page, expect

from jobs.models import BulkRun, JobQueue
from tenants.scope import all_firms
from tests.e2e.conftest import Open
from tests.factories.jobs import JobQueueFactory

pytestmark = [pytest.mark.browser, pytest.mark.req("O-08")]

RUN = UUID(int=7)
# The page is hidden at first, and refreshes when a test shows it, never by its own timer.
LIVE = """
  let visible = false;
  Object.defineProperty(document, "visibilityState", { get: () => visible ? "visible" : "hidden" });
  window.turn = (seen) => { visible = seen; document.dispatchEvent(new Event("visibilitychange")); };
"""


def apart(work: Any) -> Any:
    """Run `work` on another thread, because the browser's event loop runs on this one."""

    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def refresh(page: Page) -> None:
    """Show the page until it has refreshed itself, and hide it again."""
    before = page.evaluate("document.documentElement.dataset.refreshed || ''")
    page.evaluate("turn(true)")
    page.wait_for_function(
        "before => (document.documentElement.dataset.refreshed || '') !== before", arg=before
    )
    page.evaluate("turn(false)")


def asked(page: Page) -> list[str]:
    """Return a list to which each request of the page's script is added."""
    requests: list[str] = []
    page.on(
        "request", lambda one: requests.append(one.url) if "fetch" in one.resource_type else None
    )
    return requests


def test_the_dashboard_follows_the_queue_while_it_is_seen(
    open_admin: Open, operator: str, firm: Any
) -> None:
    page = open_admin(operator)
    page.add_init_script(LIVE)
    page.clock.install()
    page.goto("/admin/")
    tile = page.locator(".queue-tile", has_text="Runnable now").locator(".queue-tile-value")
    expect(tile).to_have_text("0")
    requests = asked(page)
    apart(lambda: JobQueueFactory(firm=firm))
    page.clock.run_for(60_000)
    assert requests == []
    expect(tile).to_have_text("0")
    refresh(page)
    expect(tile).to_have_text("1")
    assert {re.sub("https?://[^/]*", "", url) for url in requests} == {"/admin/"}


def test_a_jobs_page_follows_the_job_but_not_under_the_readers_hands(
    open_admin: Open, operator: str, firm: Any
) -> None:
    job: JobQueue = apart(lambda: JobQueueFactory(firm=firm))
    page = open_admin(operator)
    page.add_init_script(LIVE)
    page.goto(f"/admin/jobs/jobqueue/{job.pk}/change/")
    state = page.locator("[data-live=state]")
    page.get_by_role("link", name="Cancel job").focus()

    def change(**columns: Any) -> None:
        from tests.queue_kit import change

        apart(lambda: change(job.pk, **columns))

    change(last_error="it went wrong")
    refresh(page)
    expect(state).not_to_contain_text("it went wrong")
    page.evaluate("document.activeElement.blur()")
    refresh(page)
    expect(state).to_contain_text("it went wrong")


def test_what_did_not_change_is_not_read_again(open_admin: Open, operator: str, firm: Any) -> None:
    due = timezone.now() + timedelta(days=400, hours=12)
    job: JobQueue = apart(lambda: JobQueueFactory(firm=firm, scheduled_at=due))
    page = open_admin(operator)
    page.add_init_script(LIVE)
    page.goto(f"/admin/jobs/jobqueue/{job.pk}/change/")
    state = page.locator("[data-live=state]")
    expect(state).to_have_attribute("aria-live", "polite")
    state.evaluate("element => { element.firstElementChild.known = true; }")
    refresh(page)
    assert state.evaluate("element => element.firstElementChild.known") is True


def test_a_list_of_bulk_runs_follows_them(open_admin: Open, operator: str, firm: Any) -> None:
    def run(**columns: Any) -> None:
        with all_firms("test"):
            BulkRun.objects.update_or_create(
                firm=firm,
                job_id=RUN,
                defaults={"operation": "reprocess", "selection": {}, "total": 10, **columns},
            )

    apart(lambda: run(done=1))
    page = open_admin(operator)
    page.add_init_script(LIVE)
    page.goto("/admin/jobs/bulkrun/")
    expect(page.locator("#result_list")).to_contain_text("10%")
    apart(lambda: run(done=4))
    refresh(page)
    expect(page.locator("#result_list")).to_contain_text("40%")


def test_pages_say_that_they_are_no_longer_kept_up_to_date(
    open_admin: Open, operator: str, firm: Any
) -> None:
    def run() -> Any:
        with all_firms("test"):
            return BulkRun.objects.create(
                firm=firm, job_id=RUN, operation="reprocess", selection={}, total=10, done=1
            ).pk

    address = f"/admin/jobs/bulkrun/{apart(run)}/change/"
    page = open_admin(operator)
    page.goto(address)
    progress = page.context.new_page()
    progress.goto(address)
    faults: list[str] = []
    progress.on("pageerror", lambda error: faults.append(str(error)))
    page.goto("/admin/")
    page.context.clear_cookies(name="sessionid")
    for one in (page, progress):
        one.bring_to_front()
        expect(one.get_by_role("alert")).to_contain_text("You were signed out")
    assert faults == []
    with progress.expect_navigation():
        progress.get_by_role("link", name="Sign in again").click()
    expect(progress.get_by_label("Username")).to_be_visible()
