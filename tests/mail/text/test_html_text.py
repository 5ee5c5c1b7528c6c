"""HTML mail reads like the page it shows, and nothing hidden gets into it."""

from __future__ import annotations

import time

import pytest

from mail.text.html_text import html_to_text

pytestmark = pytest.mark.req("M-06")


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        (
            "<p>Hello <b>Jane</b>,<br>how are&nbsp;you?</p><p>Bye",
            "Hello Jane,\nhow are you?\n\nBye",
        ),
        ("<ul><li>one<li><p>two</p></ul>", "- one\n\n- two"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "a b\nc"),
        (
            "<blockquote>old<blockquote>older</blockquote></blockquote>new",
            "> old\n> >\n> > older\n\nnew",
        ),
        ("<pre>a\nb</pre>", "a\nb"),
        ('<img src="x" alt="Our logo"><a href="https://x.example/?a>b">link</a>', "Our logo link"),
        ("5 < 6 &amp; 7 > 6", "5 < 6 & 7 > 6"),
        ("<script>var a='<p>no</p>';</script><style>p{}</style><title>t</title>yes", "yes"),
        ("<!-- <p>no</p> --><![if mso]>yes<![endif]>", "yes"),
        ('<a href="never closed>text</a><p>more</p>', "text\n\nmore"),
        ("<svg><text>no</text></svg>yes", "yes"),
        ("ze\u200bro\xadwidth", "zerowidth"),
        ("", ""),
    ],
)
def test_shown_text(markup, shown):
    assert html_to_text(markup).shown == shown


@pytest.mark.parametrize(
    "hidden",
    [
        '<div style="display:none">secret</div>',
        '<div style="DISPLAY : none !important">secret</div>',
        '<div style="display:none"><p style="display:block">secret</p></div>',
        "<div hidden>secret</div>",
        '<span style="font-size:0">secret</span>',
        '<span style="font-size:1px">secret</span>',
        '<span style="font:0/0 a">secret</span>',
        '<span style="visibility:hidden">secret</span>',
        '<span style="opacity:0">secret</span>',
        '<span style="color:#FFFFFF">secret</span>',
        '<font color="white">secret</font>',
        '<table bgcolor="#123456"><tr><td style="color:#123456">secret</td></tr></table>',
        '<div style="max-height:0;overflow:hidden">secret</div>',
        '<div style="position:absolute;left:-9999px">secret</div>',
        "<style>.pre{display:none}</style><div class='x pre'>secret</div>",
        "<style>#pre{color:white}</style><div id=pre>secret</div>",
        "<style>/* } */ span.pre , b { font-size:0px }</style><span class=pre>secret</span>",
    ],
)
def test_hidden_text_is_kept_apart(hidden):
    page = html_to_text(f"before {hidden}<p>after</p>")
    assert page.hidden == "secret"
    assert page.shown == "before\n\nafter"


@pytest.mark.parametrize(
    "visible",
    [
        '<div style="font-size:0"><span style="font-size:14px">seen</span></div>',
        '<div style="visibility:hidden"><b style="visibility:visible">seen</b></div>',
        '<td bgcolor="black"><span style="color:#fff">seen</span></td>',
        "<style>.dark{background:#000}</style><div class=dark><i style='color:white'>seen</i></div>",
        "<style>@media (max-width:600px){.wide{display:none}}</style><p class=wide>seen</p>",
        '<p style="display:none">gone<p>seen',
        '<span style="font-size:1em">seen</span>',
    ],
)
def test_visible_text_is_not_taken_for_hidden(visible):
    assert html_to_text(visible).shown == "seen"


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a", '<a "', "<a b='", "<div>", "<", "</", "</p>", "<p>", "&#", "<b><i>", "<style>a{",
     "<style>/*", "<font color=red><p>", "<blockquote>a", "<pre>\n", "<td style='color:", "</b></i>"],
)  # fmt: skip
def test_a_hostile_megabyte_takes_seconds_not_hours(piece):
    markup = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    started = time.process_time()
    html_to_text(markup)
    assert time.process_time() - started < 20
