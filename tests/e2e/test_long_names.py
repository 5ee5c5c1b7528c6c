"""Long names in a real browser: no page cuts them, and no list hides its last columns."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import DeadLetterQueue
from jobs.operations.limits import pause
from jobs.operations.schedules import create_schedule
from jobs.registry import JobPayload, JobType, job
from mail.models import MailAccount
from tenants.audit import Actor, record_operation
from tenants.models import Firm
from tenants.scope import all_firms
from tests.e2e.conftest import PASSWORD, Open
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.mail import MessageFactory
from tests.factories.tenants import UserFactory
from tests.queue_kit import rows
from tests.support.mail_rows import fill_mail

pytestmark = [pytest.mark.browser, pytest.mark.req("O-03")]

TYPE = "report.monthly_revenue_and_margin_by_customer_and_region"
ADDRESS = "a.rather.long.name.of.a.person@department.bramleykos.example"
# The elements of the page's content that go beyond the screen, or beyond a part that cuts them.
CUT = """() => [...document.querySelectorAll("#content *, #content")].filter(one => {
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    if (!box.width || one.closest("svg")) return false;
    const hides = ["hidden", "clip"].includes(style.overflowX) && style.textOverflow !== "ellipsis";
    return box.right > innerWidth + 1 || (hides && one.scrollWidth > one.clientWidth + 1);
}).map(one => one.outerHTML.slice(0, 200))"""
HIDDEN_COLUMNS = """() => {
    const list = document.querySelector("#result_list");
    return list.getBoundingClientRect().right - innerWidth;
}"""

CUT_TABLES = "tables => tables.map(one => one.scrollWidth > one.clientWidth)"
LINES = """one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getClientRects().length;
}"""


@pytest.fixture
def letters(job_types: dict[str, JobType], firm: Firm) -> list[DeadLetterQueue]:
    """Return two dead letters of one failure, of a type with a long name."""

    @job(TYPE, category="export", payload=JobPayload)
    def report(payload: JobPayload, ctx: Any) -> None: ...

    for _ in range(2):
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq", category="export", job_type=TYPE),
            error_class="ValueError",
            error="no such region",
            fingerprint="feed",
        )
    return rows(DeadLetterQueue)


def test_a_phone_shows_the_whole_name(
    open_admin: Open, operator: str, letters: list[DeadLetterQueue]
) -> None:
    page = open_admin(operator, "phone")
    cut = {}
    for address in (
        "/admin/jobs/jobqueue/new/",
        f"/admin/jobs/jobqueue/new/{TYPE}/",
        f"/admin/jobs/deadletterqueue/{letters[0].pk}/change/",
        f"/admin/jobs/jobqueue/{letters[0].original_job_id}/change/",
        "/admin/jobs/deadletterqueue/groups/",
        "/admin/mail/agentprofile/new/",
    ):
        page.goto(address)
        if found := page.evaluate(CUT):
            cut[address] = found
    assert cut == {}


def test_a_desk_shows_every_column_of_a_list(
    open_admin: Open, firm: Firm, letters: list[DeadLetterQueue]
) -> None:
    MessageFactory(
        account__firm=firm,
        account__address=ADDRESS,
        sender_address=ADDRESS,
        subject="The price list, the drawing and the date of the inspection",
    )
    record_operation(
        Actor("service", account="operator1@acme.example"), "dead_letter.reprocess", firm_id=firm.pk, target=("dead_letter", letters[0].pk),
        reason="the parser of amounts was mended, and the customer has sent the order once more",
    )  # fmt: skip
    UserFactory(username="root", password=PASSWORD, is_staff=True, is_superuser=True)
    page = open_admin("root")
    hidden = {}
    for address in (
        "/admin/jobs/jobqueue/",
        "/admin/jobs/deadletterqueue/",
        "/admin/mail/message/",
        "/admin/tenants/auditentry/",
    ):
        page.goto(address)
        if (pixels := page.evaluate(HIDDEN_COLUMNS)) > 0:
            hidden[address] = pixels
        name = page.locator("#result_list :is(.field-job, .field-dead_letter)").first
        if name.count() and (box := name.bounding_box()):
            assert box["height"] < 100, "the name is not broken letter by letter"
    assert hidden == {}


def test_a_long_name_of_a_firm_hides_no_column(
    open_admin: Open, firm: Firm, letters: list[DeadLetterQueue]
) -> None:
    name = "Donaudampfschifffahrtsgesellschaft mbH Linz, Abteilung für Reisen und Frachten"
    firm.name = f"{name} auf dem Schwarzen Meer"
    firm.save()
    pause(firm=firm, reason="the invoice")
    create_schedule("Every morning " * 7, "noop", firm=firm, interval_seconds=3600)
    UserFactory(username="root", password=PASSWORD, is_staff=True, is_superuser=True)
    page = open_admin("root")
    hidden = {}
    for address in ("jobqueue", "deadletterqueue", "pause", "schedule"):
        page.goto(f"/admin/jobs/{address}/")
        if (pixels := page.evaluate(HIDDEN_COLUMNS)) > 0:
            hidden[address] = pixels
    assert hidden == {}
    page.goto("/admin/")
    tables = page.locator(".queue-scroll", has_text=name)
    assert tables.count()
    assert set(tables.evaluate_all(CUT_TABLES)) == {False}


def test_a_desk_shows_the_address_of_a_mailbox_in_one_line(open_admin: Open, firm: Firm) -> None:
    fill_mail(firm, UserFactory(member_of=firm))
    with all_firms("test"):
        first = MailAccount.objects.filter(firm=firm).order_by("pk")[0]
        MailAccount.objects.filter(pk=first.pk).update(address="tereza.holubova@bramleykos.example")
    UserFactory(username="root", password=PASSWORD, is_staff=True, is_superuser=True)
    page = open_admin("root")
    for address in ("/admin/mail/document/", "/admin/mail/message/", "/admin/mail/mailthread/"):
        page.goto(address)
        cells = page.locator("#result_list .field-account", has_text="tereza.holubova@").all()
        assert cells
        assert {cell.evaluate(LINES) for cell in cells} == {1}, address
        assert page.evaluate(HIDDEN_COLUMNS) <= 0


def test_a_phone_names_the_list_that_a_row_belongs_to(
    open_admin: Open, operator: str, letters: list[DeadLetterQueue]
) -> None:
    page = open_admin(operator, "phone")
    page.goto(f"/admin/jobs/jobqueue/{letters[0].original_job_id}/change/")
    crumb = page.locator(".queue-crumb:visible").first
    assert crumb.inner_text() == "Jobs"
    assert crumb.evaluate("one => one.scrollWidth <= one.clientWidth")
