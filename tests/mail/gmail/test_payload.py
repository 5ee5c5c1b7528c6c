"""Raw bytes to Gmail's MessagePart tree and snippet."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail.gmail.simulator.discovery import answer_validator
from mail.gmail.simulator.letter import read_letter
from mail.gmail.simulator.messages import message_part
from mail.gmail.simulator.mime import decode_bytes, decode_words, parse

pytestmark = pytest.mark.req("M-03")


def _tree(raw: bytes) -> dict:
    return message_part(parse(raw))


def _outline(part: dict) -> list[tuple[str, str, str]]:
    rows = [(part["partId"], part["mimeType"], part["filename"])]
    for child in part.get("parts", []):
        rows += _outline(child)
    return rows


def _data(part: dict) -> bytes:
    return base64.urlsafe_b64decode(part["body"]["data"])


NESTED = b"""\
Content-Type: multipart/mixed; boundary="outer"

preamble
--outer
Content-Type: multipart/alternative; boundary=inner

--inner
Content-Type: text/plain; charset=iso-8859-2
Content-Transfer-Encoding: quoted-printable

P=F8=EDstav
--inner
Content-Type: text/html

<p>harbour</p>
--inner--
--outer
Content-Type: application/pdf
Content-Disposition: attachment; filename*=utf-8''p%C5%99%C3%ADstav.pdf
Content-Transfer-Encoding: base64

JVBERi0x
--outer
Content-Type: message/rfc822

Subject: inside

the letter inside
--outer--
epilogue
"""


def test_parts_are_numbered_and_nested_as_gmail_does():
    assert _outline(_tree(NESTED)) == [
        ("", "multipart/mixed", ""),
        ("0", "multipart/alternative", ""),
        ("0.0", "text/plain", ""),
        ("0.1", "text/html", ""),
        ("1", "application/pdf", "přístav.pdf"),
        ("2", "message/rfc822", ""),
        ("2.0", "text/plain", ""),
    ]


def test_text_is_given_in_utf_8_under_its_label_and_files_are_fetched_apart():
    tree = _tree(NESTED)
    text, pdf, inside = tree["parts"][0]["parts"][0], tree["parts"][1], tree["parts"][2]

    assert _data(text) == "Přístav".encode()
    assert text["body"]["size"] == len("Přístav".encode())
    assert any("iso-8859-2" in header["value"] for header in text["headers"])
    assert pdf["body"].keys() == {"size", "attachmentId"}
    assert pdf["body"]["size"] == len(b"%PDF-1")
    assert _data(inside["parts"][0]) == b"the letter inside"


def test_big_text_is_fetched_apart():
    tree = _tree(b"Subject: x\n\n" + b"a" * (1024 * 1024 + 1))

    assert tree["body"].keys() == {"size", "attachmentId"}


def test_headers_keep_case_order_and_repeats_and_are_unfolded():
    raw = (
        b"From sender Mon Mar  3 10:00:00 2025\r\n"
        b"RECEIVED: one\r\nreceived: two\r\nSubject: =?utf-8?q?p=C5=99?=\r\n  folded\r\n"
        b"X-Bytes: p\xc5\x99\r\nX-Latin: \xe9\r\nnot a header\r\n\r\nbody"
    )

    tree = _tree(raw)

    assert [(header["name"], header["value"]) for header in tree["headers"]] == [
        ("RECEIVED", "one"),
        ("received", "two"),
        ("Subject", "=?utf-8?q?p=C5=99?=  folded"),
        ("X-Bytes", "př"),
        ("X-Latin", "é"),
    ]
    assert _data(tree) == b"not a header\r\n\r\nbody"


@pytest.mark.parametrize(
    ("label", "data", "given"),
    [
        ("iso-2022-jp", "日本".encode("iso2022_jp"), "日本".encode()),
        ("iso-8859-1", "Café".encode(), "Café".encode()),
        ("utf-8", b"caf\xe9", b"caf\xe9"),
        ("unicode-escape", b"\xe9\\u0041", b"\xe9\\u0041"),
        ("x-unknown", b"caf\xe9", b"caf\xe9"),
    ],
)
def test_what_is_utf_8_or_no_text_of_its_charset_stays_as_it_is(label, data, given):
    raw = b"Content-Type: text/plain; charset=" + label.encode() + b"\n\n" + data
    assert _data(_tree(raw)) == given


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Content-Type: multipart/mixed\n\nno boundary", b"no boundary"),
        (b"Content-Type: multipart/mixed; boundary=b\n\nnever used", b"never used"),
        (b"Content-Type: text\n\nhalf a type", b"half a type"),
        (b"Content-Type: text/plain; charset*0*=x''%zz; charset*00=\n\nodd", b"odd"),
        (b"Content-Transfer-Encoding: base64\n\naGVsbG8", b"hello"),
        (b"Content-Transfer-Encoding: base64\n\naGVs*bG8gd\n", b"hello "),
        (b"Content-Transfer-Encoding: quoted-printable\n\n100=% =ZZ", b"100=% =ZZ"),
        (b"Content-Transfer-Encoding: mystery\n\nas is", b"as is"),
        (b"Subject: old Mac\r\rlines", b"lines"),
        (b'Content-Type: text/plain; name="note.txt"\n\nnamed', b"named"),
    ],
)
def test_broken_mail_still_shows_its_text(raw, text):
    assert _data(_tree(raw)) == text


def test_an_unclosed_multipart_keeps_its_last_part():
    tree = _tree(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo")

    assert [_data(part) for part in tree["parts"]] == [b"one", b"two"]


@pytest.mark.parametrize(
    "raw",
    [
        b"Content-Type: message/rfc822\n\n" * 500,
        b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n" * 100_000,
        b"".join(
            b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth)
            for depth in range(300)
        ),
        b"A: b\n" * 50_000,
    ],
    ids=["nested letters", "many parts", "deep parts", "many headers"],
)
def test_hostile_structure_is_bounded(raw):
    part = parse(raw)

    assert sum(1 for _ in part.walk()) <= 1001
    json.dumps(message_part(part))


@given(st.binary(max_size=400))
def test_any_bytes_make_a_valid_part(raw):
    tree = _tree(raw)

    answer_validator("MessagePart").validate(tree)
    assert "\0" not in json.dumps(tree, ensure_ascii=False)


@given(st.binary(max_size=200), st.text(max_size=20) | st.sampled_from(["utf-7", "idna", "hex"]))
def test_any_charset_decodes_to_storable_text(data, charset):
    text = decode_bytes(data, charset)

    assert "\0" not in text
    assert text.encode("utf-8").decode("utf-8") == text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("=?utf-8?b?UMWZw61zdGF2?= 2", "Přístav 2"),
        ("=?utf-8?q?a?= =?utf-8?q?b?=", "ab"),
        ("=?iso-8859-2?q?P=F8?=", "Př"),
        ("=?nonsense?q?abc?=", "abc"),
        ("=?utf-8?x?abc?=", "=?utf-8?x?abc?="),
        ("=?utf-8?b?@@@?= tail", None),
    ],
)
def test_encoded_words_are_decoded_where_they_can_be(written, read):
    decoded = decode_words(written)

    assert decoded == read if read is not None else decoded.endswith("tail")


@pytest.mark.parametrize(
    ("raw", "snippet"),
    [
        (b"\n" + b"word " * 100, ("word " * 100)[:200].strip()),
        (b"Content-Type: text/html\n\n<style>p{}</style><p>a</p><p>b &amp; c</p>", "a b &amp; c"),
        (b"Content-Type: text/html\n\n<script>evil()</script>fine", "fine"),
        (b"\nfish & <chips>", "fish &amp; &lt;chips&gt;"),
        (b"Subject: empty\n\n", ""),
    ],
)
def test_the_snippet_is_the_first_escaped_text(raw, snippet):
    assert read_letter(parse(raw)).snippet.strip() == snippet
