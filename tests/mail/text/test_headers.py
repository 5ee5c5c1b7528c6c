"""Header fields as senders really write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mail.text.addresses import parse_addresses, parse_sender
from mail.text.headers import decode_header, parse_date, parse_message_ids
from mail.text.parsed import Address

pytestmark = pytest.mark.req("M-06")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"Doe, Jane" <j@x.example>', [("Doe, Jane", "j@x.example")]),
        (
            "Novák, Jan <j@x.example>, b@x.example",
            [("Novák, Jan", "j@x.example"), ("", "b@x.example")],
        ),
        ("=?utf-8?Q?Nov=C3=A1k=2C_Jan?= <j@x.example>", [("Novák, Jan", "j@x.example")]),
        ("j@x.example (Jane (the) Doe)", [("Jane the Doe", "j@x.example")]),
        ("undisclosed-recipients:;", []),
        ("Team: a@x.example, Bee <b@x.example>;", [("", "a@x.example"), ("Bee", "b@x.example")]),
        (r'"a\"b" <q@x.example>', [('a"b', "q@x.example")]),
        ('"never closed <q@x.example>', [('"never closed', "q@x.example")]),
        ("Nov\udcc3\udca1k <n@x.example>", [("Novák", "n@x.example")]),
        ("no address at all", []),
        ("Jane (Sales <j@x.example>", [("Jane (Sales", "j@x.example")]),
        (
            "a@x.example (A), Bee (old <b@x.example>, Cee (C) <c@x.example>",
            [("A", "a@x.example"), ("Bee (old", "b@x.example"), ("Cee", "c@x.example")],
        ),
        ("((((" * 20_000 + " a@x.example", [("", "a@x.example")]),
    ],
)
def test_address_lists(value, expected):
    assert [(a.name, a.address) for a in parse_addresses((value,))] == expected


def test_a_sender_without_address_keeps_its_words():
    assert parse_sender(("MAILER-DAEMON",)) == Address("MAILER-DAEMON", "")
    assert parse_sender(()) == Address("", "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("=?utf-8?Q?a_b?= =?utf-8?Q?c?=", "a bc"),
        ("Re: =?utf-8?B?xZk?= x", "Re: ř x"),
        ("=?utf-8?Q?=C5?= =?utf-8?Q?=99?=", "ř"),
        ("=?iso-8859-2?Q?=F8?=\r\n =?utf-8?Q?=C5=99?=", "řř"),
        ("=?utf-8*cs?Q?=C5=99?=", "ř"),
        ("=?nonsense?Q?=E9t=E9?=", "été"),
        # Valid UTF-8 by chance.
        ("=?gb2312?B?1KzQr9S7?=", "袁携曰"),
        ("=?gb2312?B?1KzQr9S7?= =?utf-8?Q?_=C5=99?=", "袁携曰 ř"),
        ("=?utf-8?Q?x=0D=0ABcc:_evil?=", "x Bcc: evil"),
        ("=?utf-8?B?Y W!Jj?=", "abc"),
        ("caf\udce9", "café"),
        ("=?utf-8?Q?open", "=?utf-8?Q?open"),
    ],
)
def test_encoded_words(value, expected):
    assert decode_header(value, 200) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Mon, 2 Nov 2026 10:00:00 +0100", datetime(2026, 11, 2, 9, tzinfo=UTC)),
        ("Mon, 2 Nov 2026 10:00:00 -0000", datetime(2026, 11, 2, 10, tzinfo=UTC)),
        ("Fri, 31 Feb 2020 10:00:00 GMT", None),
        ("Mon, 1 Jan 99999 00:00:00 +0000", None),
        ("Mon, 2 Nov 2026 10:00:00 +9999", None),
        ("Fri, 31 Dec 9999 23:59:59 -1200", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_dates(value, expected):
    assert parse_date(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<a@x>", ("<a@x>",)),
        ("a@x", ("<a@x>",)),
        ("<a@x><b@x> junk <a@x>", ("<a@x>", "<b@x>")),
        ("junk", ()),
        (None, ()),
    ],
)
def test_message_ids(value, expected):
    assert parse_message_ids(value) == expected
