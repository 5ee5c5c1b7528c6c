"""The operators' pages as a screen reader reads them, on paper, and in the colours of the reader."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from jobs.models import DeadLetterQueue, JobQueue
from tests.e2e.conftest import Open
from tests.queue_kit import rows

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03")]


def test_no_icon_is_read_as_a_word(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.goto(f"/admin/jobs/deadletterqueue/{rows(DeadLetterQueue)[0].pk}/change/")
    expect(page.get_by_role("link", name="Reprocess", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Back", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Dead letters", exact=True).first).to_be_visible()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_accessible_name(re.compile("^Queue Dead letters Fatal"))
    page.goto("/admin/jobs/jobqueue/")
    expect(page.get_by_role("button", name="Search", exact=True)).to_be_visible()


def test_the_keyboard_alone_signs_out(open_admin: Open, operator: str) -> None:
    page = open_admin(operator)
    page.get_by_role("button", name=operator).focus()
    page.keyboard.press("Enter")
    out = page.get_by_role("button", name="Log out", exact=True)
    expect(out).to_be_visible()
    page.keyboard.press("Shift+Tab")
    expect(out).to_be_focused()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.goto("/admin/jobs/jobqueue/")
    assert "/login/" in page.url


def test_the_keyboard_alone_opens_the_menu_of_a_phone(open_admin: Open, operator: str) -> None:
    page = open_admin(operator, "phone")
    jobs = page.get_by_role("link", name="Jobs", exact=True)
    expect(jobs).not_to_be_visible()
    page.get_by_role("button", name="Menu", exact=True).focus()
    page.keyboard.press("Space")
    expect(jobs).to_be_visible()
    close = page.get_by_role("button", name="Close the menu", exact=True)
    close.focus()
    page.keyboard.press("Enter")
    expect(jobs).not_to_be_visible()
