"""A formatted mail in a real browser: the reader sees it, and no request tells its sender so."""

from __future__ import annotations

import pytest

from tenants.models import Firm
from tests.e2e.conftest import Open
from tests.e2e.test_accessibility import grave_faults
from tests.factories.mail import MessageFactory

pytestmark = [pytest.mark.browser, pytest.mark.req("M-22")]

IMAGE = "https://sender.example/seen.png"
HTML = (
    f"<h3>Our prices</h3><img src='{IMAGE}' alt='logo'><script>document.body.innerHTML = ''</script>"
    "<p>Ten pieces cost <b>40 euros</b>.</p>"
)


def test_a_formatted_mail_is_seen_and_its_images_are_fetched_when_asked_for(
    open_admin: Open, operator: str, firm: Firm
) -> None:
    message = MessageFactory(account__firm=firm, account__shared=True, html=HTML, text="Our prices")
    page = open_admin(operator)
    asked: list[str] = []
    page.context.route("https://sender.example/**", lambda route: route.abort())
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/admin/mail/message/{message.pk}/change/")
    assert not [one for one in asked if one.endswith("/html/")], "nothing before it is opened"
    page.get_by_text("Show the mail as its sender formatted it").click()
    frame = page.frame_locator("iframe.queue-frame")
    frame.get_by_text("40 euros").wait_for()
    assert IMAGE not in asked
    assert grave_faults(page) == []
    with page.expect_request(IMAGE):
        page.get_by_role("link", name="Show remote images").click()
    page.frame_locator("iframe.queue-frame").get_by_text("40 euros").wait_for()
