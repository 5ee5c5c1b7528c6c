"""Nine in the morning: from the board to one failure reprocessed and another discarded."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from jobs.models import BulkRun, DeadLetterQueue
from jobs.states import BulkState
from jobs.testing import drain, frozen_time
from tenants.models import Firm
from tenants.scope import all_firms
from tests.e2e.conftest import Open, follow, work
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.queue_kit import rows

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03", "D-03")]

MOST_CLICKS = 9
CAUSES = {"a" * 16: "ConnectionError", "b" * 16: "KeyError", "c" * 16: "TimeoutError"}


@pytest.fixture
def morning(operator: str, firm: Firm) -> None:
    """Leave 60 dead letters of three failures."""
    for number, (fingerprint, error) in enumerate(CAUSES.items(), start=1):
        for _ in range(number * 10):
            DeadLetterQueueFactory(
                original_job=JobQueueFactory(firm=firm, status="dlq", attempts=1),
                fingerprint=fingerprint,
                error_class=error,
                error="the archive did not answer within the time it has: try the mirror",
                reason="exhausted",
            )


class Clicks:
    """Counts what somebody clicks."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.count = 0

    def click(self, role: str, name: str, nth: int = 0) -> None:
        self.count += 1
        follow(self.page.get_by_role(role, name=name).nth(nth))


def decided() -> dict[str, set[str]]:
    """Return the resolutions of each failure."""
    found: dict[str, set[str]] = {}
    for letter in rows(DeadLetterQueue):
        found.setdefault(letter.fingerprint, set()).add(letter.resolution)
    return found


def work_at_one_moment() -> None:
    """Run what is due while time stands still, so that a bulk run still waits for its canary."""
    with frozen_time():
        drain()
    connection.close()


def in_thread(work: Callable[[], None]) -> None:
    """Run `work` on another thread, because the browser's event loop runs on this one."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(work).result()


def test_one_failure_is_reprocessed_with_a_canary_and_another_discarded(
    open_admin: Open, operator: str, morning: None
) -> None:
    page = open_admin(operator)
    by_hand = Clicks(page)
    by_hand.click("link", "Triage board")
    groups = page.locator(".queue-group")
    assert [text.split("\n")[0] for text in groups.all_inner_texts()] == ["30", "20", "10"]
    by_hand.click("link", "Reprocess all 30")
    assert "TimeoutError" in page.locator(".queue-totals").inner_text()
    page.get_by_label("Canary").fill("5")
    by_hand.click("button", "Reprocess")
    page.locator("progress").wait_for()
    assert "0 of 30 done" in page.locator(".queue-head").inner_text()
    in_thread(work_at_one_moment)
    with all_firms("test"):
        assert BulkRun.objects.get().done == 5
    # The page refreshes itself.
    page.get_by_text("5 of 30 done").wait_for()
    page.wait_for_timeout(1100)
    work()
    page.get_by_text("completed").first.wait_for()
    assert "30 of 30 done" in page.locator(".queue-head").inner_text()

    by_hand.click("link", "Triage board", 1)
    by_hand.click("link", "Discard all 20")
    page.get_by_label("Reason").fill("the customer left")
    by_hand.click("button", "Discard")
    page.locator("progress").wait_for()
    work()
    page.get_by_text("completed").first.wait_for()
    assert decided() == {"c" * 16: {"reprocessed"}, "b" * 16: {"discarded"}, "a" * 16: {""}}
    assert by_hand.count <= MOST_CLICKS


def test_a_run_is_stopped_and_the_lists_filter_is_kept(
    open_admin: Open, operator: str, morning: None
) -> None:
    page = open_admin(operator)
    page.goto(f"/admin/jobs/deadletterqueue/?q={'b' * 16}&resolution=open")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("reprocess")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Reprocess").click()
    page.get_by_role("link", name="Stop").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped: 0 of 20 were handled.").wait_for()
    work()
    with all_firms("test"):
        run = BulkRun.objects.get()
    assert (run.state, run.done) == (BulkState.STOPPED, 0)
    page.go_back(), page.go_back()
    page.get_by_role("link", name="Back to the list").click()
    page.wait_for_url(f"**/?q={'b' * 16}&resolution=open")


@pytest.mark.parametrize("width", ["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits(
    open_admin: Open, operator: str, morning: None, width: Any, scheme: Any
) -> None:
    page = open_admin(operator, width, scheme)
    page.goto("/admin/jobs/deadletterqueue/groups/")
    pages = [("board", page.url)]
    follow(page.get_by_role("link", name="Reprocess all 30"))
    pages.append(("confirm", page.url))
    follow(page.get_by_role("button", name="Reprocess"))
    pages += [("progress", page.url), ("runs", "/admin/jobs/bulkrun/")]
    for name, address in pages:
        page.goto(address)
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, address
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
