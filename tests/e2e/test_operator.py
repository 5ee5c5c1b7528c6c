"""An operator's day in a browser: read, mend, reprocess, discard, escalate."""

from __future__ import annotations

import re

import pytest
from django.core import mail

from jobs.models import JobQueue
from tests.e2e.conftest import Open, work
from tests.queue_kit import row

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03", "D-02")]


def test_a_dead_job_is_mended_and_completes(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    tile = page.get_by_role("link", name="Open dead letters")
    assert re.search(r"\b2\b", tile.inner_text())
    tile.click()
    page.locator("#result_list").get_by_role("link", name="test.greet").first.click()
    assert "Fatal: nobody to greet" in page.locator("#content").inner_text()
    page.get_by_role("link", name="Open its job").click()
    job_page = page.url
    assert "Attempt 1 dead lettered" in page.locator(".queue-timeline").inner_text()
    page.get_by_role("link", name="Open its dead letter").click()
    page.get_by_role("link", name="Reprocess").click()

    editor = page.get_by_label("Payload")
    mended = editor.input_value().replace('"name": ""', '"name": "Ada"')
    editor.fill(mended.replace('"name"', '"nam"'))
    page.get_by_label("Note").fill("the name was missing")
    page.get_by_role("button", name="Reprocess").click()
    faults = page.locator(".queue-field-errors").inner_text()
    assert "name: Field required" in faults
    assert page.get_by_label("Note").input_value() == "the name was missing"

    page.get_by_label("Payload").fill(mended)
    page.get_by_role("button", name="Reprocess").click()
    page.get_by_text("test.greet is pending again").wait_for()
    work()
    page.goto(job_page)
    story = page.locator("#content").inner_text()
    assert "COMPLETED" in story.upper()
    assert "Hello Ada" in story
    assert {row(job.pk).status for job in dead_jobs} == {"completed", "dlq"}


def test_another_is_escalated_then_discarded_and_a_stale_page_says_so(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.goto("/admin/jobs/deadletterqueue/?decision=open")
    page.locator("#result_list").get_by_role("link", name="test.greet").first.click()
    letter = page.url
    page.get_by_role("link", name="Escalate").click()
    page.get_by_label("Reason").fill("whom do we greet?")
    page.get_by_label("Ask").select_option(label=operator)
    page.get_by_role("button", name="Escalate").click()
    page.get_by_text(f"Escalated to {operator}").wait_for()
    work()
    assert [message.to for message in mail.outbox] == [[operator]]

    stale = page.context.new_page()
    stale.goto(letter)
    stale.get_by_role("link", name="Discard").click()
    stale.get_by_label("Reason").fill("too late")

    page.get_by_role("link", name="Discard").click()
    page.get_by_role("button", name="Discard").click()
    assert "required" in page.locator(".queue-field-errors").inner_text()
    page.get_by_label("Reason").fill("nobody")
    page.get_by_role("button", name="Discard").click()
    page.get_by_text("Discarded: test.greet is given up").wait_for()

    stale.get_by_role("button", name="Discard").click()
    assert "was discarded already" in stale.get_by_role("alert").inner_text()
    assert {row(job.pk).status for job in dead_jobs} == {"failed", "dlq"}


def test_selected_rows_are_decided_together(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.goto("/admin/jobs/deadletterqueue/")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("discard")
    page.get_by_role("button", name="Run").click()
    assert "Discard: 2 dead letters" in page.locator(".queue-operation").inner_text()
    page.get_by_label("Reason").fill("a trial")
    page.get_by_role("button", name="Discard").click()
    page.get_by_text("0 of 2 done").wait_for()
    work()
    page.get_by_text("2 of 2 done").wait_for()
    assert {row(job.pk).status for job in dead_jobs} == {"failed"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue], scheme: str
) -> None:
    page = open_admin(operator, "phone", scheme)
    job = f"/admin/jobs/jobqueue/{dead_jobs[0].pk}"
    page.goto(f"{job}/change/")
    letter = page.get_by_role("link", name="Open its dead letter").get_attribute("href")
    assert letter is not None
    for address in (
        "/admin/",
        "/admin/jobs/jobqueue/",
        f"{job}/change/",
        f"{job}/retry/",
        letter,
        letter.replace("/change/", "/reprocess/"),
        "/admin/jobs/concurrencylock/",
        "/admin/tenants/apikey/",
    ):
        page.goto(address)
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, address
        dark = page.evaluate("document.documentElement.classList.contains('dark')")
        assert dark is (scheme == "dark"), address


def test_a_click_copies_an_id_that_the_search_finds(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/admin/jobs/jobqueue/")
    page.locator("#result_list .queue-copy").nth(1).click()
    page.locator("[data-said=Copied]").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == str(sorted(job.pk for job in dead_jobs)[0])
    for term in (copied, copied[:-1]):
        page.goto(f"/admin/jobs/jobqueue/?q={term}")
        assert copied in page.locator("#result_list").inner_text()
