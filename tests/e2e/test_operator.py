"""An operator's day in a browser: read, mend, reprocess, discard, escalate."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail
from playwright.sync_api import expect

from jobs.models import JobQueue
from jobs.operations.schedules import create_schedule
from jobs.queue import retry
from tenants.models import Firm, Role
from tests.e2e.conftest import PASSWORD, Open, follow, member, work
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.queue_kit import row, rows

LEFT_OF_TEXT = """element => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return Math.round([...range.getClientRects()].at(-1).left);
}"""

# How long a button says that it has copied.
SAID_MS = 1500
CLICK_TWICE = "button => { button.click(); setTimeout(() => button.click(), 20); }"

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03", "D-02")]


def test_a_dead_job_is_mended_and_completes(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    tile = page.get_by_role("link", name="Open dead letters")
    assert re.search(r"\b2\b", tile.inner_text())
    follow(tile)
    follow(page.locator("#result_list").get_by_role("link", name="test.greet").first)
    assert "Fatal: nobody to greet" in page.locator("#content").inner_text()
    follow(page.get_by_role("link", name="Open its job"))
    job_page = page.url
    assert "Attempt 1 dead-lettered" in page.locator(".queue-timeline").inner_text()
    page.get_by_role("link", name="Open its dead letter").click()
    page.get_by_role("link", name="Reprocess").click()

    editor = page.get_by_label("Payload")
    mended = editor.input_value().replace('"name": ""', '"name": "Ada"')
    editor.fill(mended.replace('"name"', '"nam"'))
    page.get_by_label("Reason").fill("the name was missing")
    follow(page.get_by_role("button", name="Reprocess"))
    faults = page.locator(".queue-field-errors").inner_text()
    assert "name: Field required" in faults
    assert page.get_by_label("Reason").input_value() == "the name was missing"

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
    page.goto("/admin/jobs/deadletterqueue/?resolution=open")
    follow(page.locator("#result_list").get_by_role("link", name="test.greet").first)
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
    follow(page.get_by_role("button", name="Discard"))
    assert "required" in page.locator(".queue-field-errors").inner_text()
    page.get_by_label("Reason").fill("nobody")
    page.get_by_role("button", name="Discard").click()
    page.get_by_text("Discarded: test.greet is failed").wait_for()

    follow(stale.get_by_role("button", name="Discard"))
    assert "was discarded already" in stale.get_by_role("alert").inner_text()
    assert {row(job.pk).status for job in dead_jobs} == {"failed", "dlq"}


def test_selected_rows_are_decided_together(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.goto("/admin/jobs/deadletterqueue/")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("discard")
    follow(page.get_by_role("button", name="Run"))
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


def test_a_second_line_of_a_row_begins_below_the_first_on_a_phone(
    open_admin: Open, operator: str, firm: Firm, dead_jobs: list[JobQueue]
) -> None:
    name = "Nightly greetings to all"
    create_schedule(name, "test.greet", firm=firm, cron="0 3 * * *", payload={"name": "Ada"})
    page = open_admin(operator, "phone")
    page.goto("/admin/jobs/schedule/")
    title = page.locator("#result_list .field-title")
    first, second = (
        title.get_by_text(text, exact=True).evaluate(LEFT_OF_TEXT) for text in (name, "test.greet")
    )
    assert first == second


def test_the_list_of_jobs_shows_its_errors_to_the_end_on_a_narrow_desk(
    open_admin: Open, firm: Firm
) -> None:
    UserFactory(username="root", password=PASSWORD, is_staff=True, is_superuser=True)
    JobQueueFactory(
        firm=firm,
        status="dlq",
        job_type="reminders.enqueue_due",
        last_error="Job timed out (stale claim)",
    )
    JobQueueFactory(firm=firm, status="completed", job_type="reminders.enqueue_due")
    page = open_admin("root")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto("/admin/jobs/jobqueue/")
    cut = "table => table.parentElement.scrollWidth - table.parentElement.clientWidth"
    assert page.locator("#result_list").evaluate(cut) <= 0


def test_a_form_whose_button_is_clicked_twice_is_sent_once(
    open_admin: Open, firm: Firm, greetings: None
) -> None:
    page = open_admin(member("dora@acme.example", firm, Role.DEVELOPER))
    page.goto("/admin/jobs/jobqueue/new/test.greet/")
    page.locator("[name='payload.name']").fill("Ada")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.get_by_role("button", name="Enqueue").evaluate(CLICK_TWICE)
    page.wait_for_url("**/change/")
    assert sent.count("POST") == 1
    assert len(rows(JobQueue)) == 1


def test_an_audit_entrys_target_takes_three_lines_at_most(
    open_admin: Open, firm: Firm, dead_jobs: list[JobQueue]
) -> None:
    UserFactory(username="root", password=PASSWORD, is_staff=True, is_superuser=True)
    retry(dead_jobs[0], reason="The partner answers again, says their operator on duty. " * 3)
    page = open_admin("root")
    page.goto("/admin/tenants/auditentry/")
    target = page.locator("#result_list .field-target span").first
    assert target.bounding_box()["height"] <= 64


def test_a_click_copies_an_id_that_the_search_finds(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/admin/jobs/jobqueue/")
    # The word is shown for a moment only. A slow machine could miss it, so the page's clock is
    # paused.
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))
    page.locator("#result_list .queue-copy").nth(1).click()
    page.locator("[data-said=Copied]").wait_for()
    page.clock.run_for(SAID_MS)
    expect(page.locator("[data-said]")).to_have_count(0)
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == str(sorted(job.pk for job in dead_jobs)[0])
    for term in (copied, copied[:-1]):
        page.goto(f"/admin/jobs/jobqueue/?q={term}")
        assert copied in page.locator("#result_list").inner_text()
