"""HTML of strangers is made harmless, however it is nested."""

from __future__ import annotations

import time
from html import unescape

import pytest

from mail.services.sending.compose import forward_content
from mail.text.html_tokens import Tag, tokens
from mail.text.sanitize import sanitize_html
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.factories.mail import MessageFactory

pytestmark = pytest.mark.req("M-06")

DEEP = "<div>" * 5000
# Each paragraph opens all `font` elements again.
REPEATED = "<p>" + "".join(f"<font size={size}>" for size in range(400)) + "<p>x" * 4000


@pytest.mark.parametrize(
    "html",
    [
        DEEP,
        REPEATED,
        # Browsers see tags here, where a careless count sees an attribute, a comment or their ends.
        f"<a x'>{DEEP}<a x'>",
        f"<!-- --!>{DEEP}-->",
        "<div><!--</div>-->" * 5000,
        "<div></span>" * 5000,
    ],
)
def test_what_nests_too_deeply_is_left_with_its_text(html: str) -> None:
    shown = sanitize_html(f"Our <b>prices</b> &lt;{html}")
    assert "&lt;" in shown
    # An attacker could otherwise make the output many times longer than the input.
    assert len(shown) < 2 * len(html)
    assert depth_of(shown) < 500


@pytest.mark.parametrize(
    "html",
    [
        "&" * 800_000,
        "\N{NO-BREAK SPACE}" * 800_000,
        f"<p>Hello <a title='{'&' * 800_000}'>there</a>",
    ],
    ids=["text", "spaces", "attribute"],
)
def test_what_is_escaped_all_through_takes_no_minute(html: str) -> None:
    begun = time.process_time()
    shown = sanitize_html(f"Our prices {html}")
    # Ten seconds and more without a bound, and four times that for twice the length.
    assert time.process_time() - begun < 4
    assert shown.startswith("Our prices ")
    # Only what is hidden in attributes is lost.
    assert html.startswith("<p>") or unescape(shown) == f"Our prices {html}"


def test_a_long_mail_keeps_its_form_and_loses_what_acts() -> None:
    row = (
        "<tr onclick='steal()'><td align=right STYLE=\"color: red\">1 &lt; 2 &amp; 3"
        "<a href='https://shop.example/?a=1&amp;b=2'>shop</a><img src='https://seen.example/x.png'>"
        "<script>steal('</td>')</script></td></tr>"
    )
    few, many = (sanitize_html(f"<table>{row * count}</table>") for count in (10, 1000))
    assert many.count("<tr>") == 1000
    body = few.removeprefix("<table><tbody>").removesuffix("</tbody></table>")
    assert many == f"<table><tbody>{body * 100}</tbody></table>"
    assert "steal" not in many
    assert "seen.example" not in many


@pytest.mark.parametrize(
    "address", ["data:text/html,x", " data:,x", "&#1;data:,x", "da&#10;ta:,x", "D&#9;ATA:,x"]
)
def test_no_link_leads_to_a_page_inside_the_mail(address: str) -> None:
    shown = sanitize_html(f'<a href="{address}">Our prices</a>')
    assert "href" not in shown
    assert "Our prices" in shown


def depth_of(html: str) -> int:
    """Return the depth of nested elements; the output of the sanitiser is well-formed."""
    depth = deepest = 0
    for tag in tokens(html):
        if isinstance(tag, Tag) and tag.name not in ("br", "hr", "img"):
            depth += -1 if tag.closing else 1
            deepest = max(deepest, depth)
    return deepest


@pytest.mark.req("M-18")
@pytest.mark.django_db
def test_a_mail_that_nests_too_deeply_is_forwarded_as_its_text(firm: Firm) -> None:
    message = MessageFactory(
        account__firm=firm, html=f"Our <b>prices</b> {DEEP}", text="Our prices"
    )
    with firm_scope(firm):
        sent = forward_content(message, to="anna@customer.example").html
    assert "prices" in sent
    assert depth_of(sent) < 500
