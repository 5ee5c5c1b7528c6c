"""A real browser in front of a real server, and a queue with something to decide about."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest
from django.core.management import call_command

from jobs.errors import Fatal
from jobs.models import JobQueue
from jobs.queue import enqueue
from jobs.registry import JobPayload, JobType, job
from tenants.models import Firm, Role
from tests.factories.tenants import UserFactory

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "a long password"
# The longest that a page takes on a machine that is busy with other work.
LONGEST_MS = 45_000
WIDTHS = {"desk": (1440, 900), "phone": (390, 844)}

Open = Callable[..., "Page"]


class GreetPayload(JobPayload):
    """Whom to greet; nobody is greeted without a name."""

    name: str


@pytest.fixture
def greetings(job_types: dict[str, JobType]) -> None:
    """Declare a type that fails for good until somebody mends its payload."""

    @job("test.greet", category="notifications", payload=GreetPayload)
    def greet(payload: GreetPayload, ctx: Any) -> dict[str, str]:
        if not payload.name:
            raise Fatal("nobody to greet")
        return {"greeting": f"Hello {payload.name}"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser."""
    binary = next(filter(None, map(shutil.which, NAMES)), None)
    if binary is None:
        pytest.skip(f"no browser installed: none of {', '.join(NAMES)} is on the PATH")
    from playwright.sync_api import expect, sync_playwright

    # Playwright runs an event loop in this thread, so Django would refuse the tests' own queries.
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=LONGEST_MS)
        started = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def open_admin(live_server: Any, browser: Browser) -> Iterator[Open]:
    """Return a function that signs somebody in; at the end, no page may have raised an error."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def sign_in(
        username: str,
        width: Literal["desk", "phone"] = "desk",
        scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        wide, high = WIDTHS[width]
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": wide, "height": high},
            color_scheme=scheme,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LONGEST_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("/admin/")
        page.get_by_label("Username").fill(username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/admin/")
        return page

    yield sign_in
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def operator(live_server: Any, firm: Firm) -> str:
    """Return the name of an operator who can sign in."""
    return member("olga@acme.example", firm, Role.OPERATOR)


def member(name: str, firm: Firm, role: Role) -> str:
    """Add somebody who can sign in and has that role in the firm; return their name."""
    UserFactory(
        username=name,
        email=name,
        password=PASSWORD,
        is_staff=True,
        member_of=firm,
        member_of__role=role,
    )
    return name


def follow(link: Locator) -> None:
    """Click a link, and wait until the page that it leads to has loaded."""
    with link.page.expect_navigation():
        link.click()


def work() -> None:
    """Let a worker run all runnable jobs."""
    call_command("runworker", burst=True)


@pytest.fixture
def dead_jobs(operator: str, firm: Firm, greetings: None) -> list[JobQueue]:
    """Return two jobs that a worker has dead-lettered."""
    jobs = [enqueue("test.greet", {"name": ""}, firm=firm).job for _ in range(2)]
    work()
    return jobs
