"""The operators' pages as a screen reader reads them, on paper, and in the colours of the reader."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from jobs.models import DeadLetterQueue, JobQueue
from tests.e2e.conftest import Open
from tests.factories.jobs import JobQueueFactory, envelope
from tests.factories.mail import MessageFactory
from tests.queue_kit import rows

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03")]

# The contrast of an element's text with the first ground behind it, by WCAG's formula.
CONTRAST = """element => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data].map((part) =>
      part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  let behind = element;
  while (/^rgba\\(.*, 0\\)$|^transparent$/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const two = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(luminance);
  return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05);
}"""


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


def test_what_scrolls_on_the_screen_is_whole_on_paper(
    open_admin: Open, operator: str, firm: Any
) -> None:
    job = JobQueueFactory(
        firm=firm, payload={**envelope(firm.pk), "lines": [str(number) for number in range(200)]}
    )
    page = open_admin(operator)
    page.goto(f"/admin/jobs/jobqueue/{job.pk}/change/")
    hidden = "element => element.scrollHeight - element.clientHeight"
    payload = page.locator("pre", has_text="tenant_id")
    assert payload.evaluate(hidden) > 0
    page.emulate_media(media="print")
    assert payload.evaluate(hidden) <= 0


def test_high_contrast_leaves_the_marks_that_tell_apart(
    open_admin: Open, operator: str, dead_jobs: list[JobQueue]
) -> None:
    page = open_admin(operator)
    page.emulate_media(forced_colors="active")
    background = "element => getComputedStyle(element, '::before').backgroundColor"
    legend = page.locator(".queue-legend").first.locator("span")
    assert len({one.evaluate(background) for one in legend.all()}) == 2
    weight = "element => getComputedStyle(element).fontWeight"
    ranges = page.locator(".queue-ranges a").all()
    assert [one.evaluate(weight) for one in ranges] == ["400", "600", "400"]
    page.goto("/admin/jobs/deadletterqueue/groups/")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    bar = page.locator(".queue-trend span").last
    assert bar.evaluate("element => getComputedStyle(element).backgroundColor") != ground


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_zero_can_be_read(open_admin: Open, operator: str, scheme: Any) -> None:
    page = open_admin(operator, "desk", scheme)
    assert page.locator(".queue-zero").first.evaluate(CONTRAST) >= 4.5


def test_text_that_runs_from_the_right_is_read_in_its_order(
    open_admin: Open, operator: str, firm: Any
) -> None:
    text = "שלום Dana, (גרסה 2.0)."
    message = MessageFactory(account__firm=firm, account__shared=True, text=f"{text}\nThanks.")
    page = open_admin(operator)
    page.goto(f"/admin/mail/message/{message.pk}/change/")
    left = """(element, [from, to]) => {
      const letter = document.createRange();
      letter.setStart(element.firstChild, from);
      letter.setEnd(element.firstChild, to);
      return letter.getBoundingClientRect().left;
    }"""
    shown = page.locator("pre", has_text="Thanks.")
    ends = [(0, 1), (len(text) - 1, len(text)), (len(text) + 1, len(text) + 2)]
    first, stop, thanks = (shown.evaluate(left, one) for one in ends)
    assert stop < first
    assert thanks < stop
