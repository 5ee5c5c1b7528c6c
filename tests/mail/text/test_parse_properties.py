"""Whatever a message holds, it is read without an error into values that can be stored."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mail.text.addresses import parse_addresses
from mail.text.charsets import decode_bytes
from mail.text.headers import decode_base64, decode_header, parameter, parse_date
from mail.text.html_text import html_to_text
from mail.text.parse import parse_message
from mail.text.quotes import split_reply

pytestmark = pytest.mark.req("M-06")

any_text = st.text(st.characters(exclude_categories=()), max_size=80)
header_like = st.lists(
    st.sampled_from(
        ["=?utf-8?Q?", "=?iso-2022-jp?B?", "?=", "=C5", '"', "<", ">", "a@b.example", ",", ";", ":",
         "(", ")", "\\", "charset=", "filename*0*=", "filename*=", "''%C5%", "utf-16", " ", "\r\n"]
    )
    | any_text,
    max_size=12,
).map("".join)  # fmt: skip
charset_labels = st.sampled_from(
    [
        "utf-8",
        "utf-16",
        "utf-7",
        "iso-2022-jp",
        "zlib",
        "hex",
        "punycode",
        "idna",
        "x-none",
        "",
        "big5",
    ]
)
html_like = st.lists(
    st.sampled_from(
        ["<p", "<div style='", "display:none", "'>", "</div>", "<!--", "-->", "<style>", "{", "}",
         "<script>", "</script", "&amp", "&#0;", "&#xd800;", "<td>", "<pre>", '"', ">", "<li>", "<br/>"]
    )
    | any_text,
    max_size=20,
).map("".join)  # fmt: skip
junk = st.none() | st.integers() | any_text | st.lists(st.integers(), max_size=2)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    data = base64.urlsafe_b64encode(draw(st.binary(max_size=200))).decode()
    return {"data": draw(st.sampled_from([data, data[:-1]]) | any_text), "size": draw(junk)}


@st.composite
def parts(draw: st.DrawFn, children: st.SearchStrategy[Any]) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(
            ["text/plain", "text/html", "multipart/alternative", "multipart/mixed", "message/rfc822",
             "text/calendar", "image/png", ""]
        )
        | any_text
    )  # fmt: skip
    names = st.sampled_from(
        ["From", "to", "Subject", "Date", "Message-ID", "References", "Content-Disposition"]
    )
    fields = st.fixed_dictionaries({"name": names | any_text, "value": header_like | junk})
    content_type = f"{kind}; charset={draw(charset_labels)}; format=flowed"
    headers = [*draw(st.lists(fields, max_size=6)), {"name": "Content-Type", "value": content_type}]
    return {
        "partId": draw(any_text | junk),
        "mimeType": kind,
        "filename": draw(header_like | junk),
        "headers": draw(st.just(headers) | junk),
        "body": draw(bodies() | junk),
        "parts": draw(st.lists(children | junk, max_size=3) | junk),
    }


trees = st.recursive(parts(st.nothing()), parts, max_leaves=6)


def storable(value: object) -> str:
    text = json.dumps(dataclasses.asdict(value), default=str, ensure_ascii=False)  # type: ignore[call-overload]
    text.encode("utf-8")
    return text


@settings(max_examples=300, deadline=None)
@given(trees | junk)
def test_any_part_tree_is_read_and_can_be_stored(payload):
    stored = storable(parse_message({"payload": payload}))
    assert "\0" not in stored
    assert "\\u0000" not in stored


@given(st.binary(max_size=300), charset_labels | any_text)
def test_any_bytes_decode_under_any_label(data, label):
    assert isinstance(decode_bytes(data, label), str)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=100))
def test_utf_8_survives_a_missing_label(text):
    text = text.replace("\ufeff", "").replace("\x1b", "")
    assert decode_bytes(text.encode("utf-8")) == text


@given(st.binary(max_size=200))
def test_base64_of_either_alphabet_is_read_with_or_without_padding(data):
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        assert decode_base64(encoded) == data
        assert decode_base64(encoded.rstrip(b"=").decode()) == data


@given(header_like)
@example("=?iso-2022-jp?B?a@b.example?=")
def test_header_fields_never_raise_and_stay_one_line(value):
    assert "\n" not in decode_header(value, 100)
    assert "\n" not in parameter(value, "filename")
    assert all("@" in address.address for address in parse_addresses((value,)))
    assert parse_date(value) is None or parse_date(value).tzinfo is not None


@given(html_like)
def test_any_html_is_read_and_its_tags_are_gone(markup):
    page = html_to_text(markup)
    assert "<script>" not in page.shown
    assert "\n\n\n" not in page.shown


@given(st.lists(any_text | st.sampled_from([">", "> a", "-- ", "On x wrote:", "From: a", ""])))
def test_no_line_of_a_reply_is_lost(lines):
    text = "\n".join(lines)
    split = split_reply(text)
    together = "\n".join((split.reply, split.quoted, split.signature))
    assert sorted(filter(None, map(str.strip, together.split("\n")))) == sorted(
        filter(None, map(str.strip, text.split("\n")))
    )
