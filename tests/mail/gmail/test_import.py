"""Seeding a mailbox: the same bytes once, dates from the headers, thousands at a time."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mail.gmail.simulator.answer import ApiError
from tests.mail.gmail.mailbox_kit import ADDRESS, CheckedHttp, letter

pytestmark = pytest.mark.req("M-03")

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SENT = datetime(2025, 3, 3, 10, tzinfo=UTC)


def _date_of(gmail, result) -> datetime:
    message = gmail.get_message(result.gmail_message_id, "minimal")
    return datetime.fromtimestamp(int(message["internalDate"]) / 1000, UTC)


def test_the_same_bytes_again_change_nothing(gmail, simulator):
    first = simulator.import_message(ADDRESS, letter())
    gmail.modify_message(first.gmail_message_id, remove=["INBOX"])
    before = gmail.profile()

    again = simulator.import_message(ADDRESS, letter())

    assert (first.created, again.created) == (True, False)
    assert again.gmail_message_id == first.gmail_message_id
    assert gmail.profile() == before
    assert gmail.get_message(first.gmail_message_id)["labelIds"] == ["UNREAD"]


def test_html_that_nests_without_end_holds_nothing_up(gmail, simulator):
    raw = b"Subject: deep\nContent-Type: text/html\n\nLook " + b"<div>" * 100_000 + b" here"
    started = time.process_time()
    result = simulator.import_message(ADDRESS, raw)
    assert time.process_time() - started < 20
    assert gmail.get_message(result.gmail_message_id)["snippet"].startswith("Look")


def test_the_same_bytes_in_another_mailbox_are_another_message(simulator):
    first = simulator.import_message(ADDRESS, letter())
    other = simulator.import_message("bob@sail.example", letter())

    assert other.created
    assert other.gmail_message_id != first.gmail_message_id


def test_an_import_is_seen_in_the_history(gmail, simulator):
    start = gmail.profile()["historyId"]
    result = simulator.import_message(ADDRESS, letter(), labels=["SENT"])

    (record,) = gmail.history(start)["history"]

    assert record["messagesAdded"][0]["message"]["id"] == result.gmail_message_id
    assert record["messagesAdded"][0]["message"]["labelIds"] == ["SENT"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("Date: Mon, 03 Mar 2025 10:00:00 +0000", SENT),
        ("Date: 3 Mar 2025 11:00 +0100 (CET)", SENT),
        ("Date: Mon, 03 Mar 2025 10:00:00 -0000", SENT),
        ("Date: Mon, 03 Mar 2025 10:00:00", SENT),
        ("Date: soon\nReceived: by a; Mon, 03 Mar 2025 10:00:00 +0000", SENT),
        ("Received: from b\n by a; 3 Mar 2025 10:00:00 +0000\nReceived: c; 2 Mar 2025", SENT),
        ("Date: Mon, 99 Mar 2025 10:00:00 +0000", NOW),
        ("Date: Thu, 01 Jan 1903 00:00:00 +0000", NOW),
        ("Subject: no date", NOW),
    ],
)
def test_the_internal_date_is_the_best_there_is(gmail, simulator, headers, expected):
    with time_machine.travel(NOW, tick=False):
        result = simulator.import_message(ADDRESS, f"{headers}\n\nbody".encode())

    assert _date_of(gmail, result) == expected


def test_a_given_internal_date_wins(gmail, simulator):
    result = simulator.import_message(ADDRESS, letter(), internal_date=NOW)

    assert _date_of(gmail, result) == NOW


def test_thousands_are_imported_in_order_and_only_once(gmail, simulator):
    raws = [letter(f"no {number}", message_id=f"{number}@x") for number in range(1000)]

    results = list(simulator.import_messages(ADDRESS, raws + raws[:10]))

    assert [result.created for result in results] == [True] * 1000 + [False] * 10
    assert gmail.profile()["messagesTotal"] == 1000
    some = gmail.get_message(results[777].gmail_message_id)["payload"]["headers"]
    assert {"name": "Subject", "value": "no 777"} in some


def test_an_unknown_label_is_refused_and_nothing_stored(gmail, simulator):
    with pytest.raises(ApiError, match="Label_9"):
        simulator.import_message(ADDRESS, letter(), labels=["Label_9"])
    assert gmail.profile()["messagesTotal"] == 0


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    head=st.lists(
        st.sampled_from(
            [b"From: ", b"Subject: =?utf-8?q?", b"Date: ", b"Content-Type: multipart/mixed;",
             b"Content-Type: text/plain; charset=", b"Content-Transfer-Encoding: base64",
             b"Content-Disposition: attachment; filename*0*=", b' boundary="b"', b"\n--b\n", b"\r\n",
             b"\n\n", b"--b--"]
        )
        | st.binary(max_size=30),
        max_size=12,
    )
)  # fmt: skip
def test_any_bytes_can_be_imported_read_and_got_back(simulator, head):
    raw = b"".join(head)
    http = CheckedHttp(simulator)

    wire_id = simulator.import_message(ADDRESS, raw).gmail_message_id

    uri = f"https://gmail.googleapis.com/gmail/v1/users/me/messages/{wire_id}"
    assert http.request(uri)[0].status == 200
    assert http.request(uri + "?format=metadata")[0].status == 200
    assert not simulator.import_message(ADDRESS, raw).created
