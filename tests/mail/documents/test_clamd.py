"""Scans by clamd over a socket: its verdicts, and streams that it refuses."""

from __future__ import annotations

import pytest

from mail.documents.clamd import ScannerUnavailable, scan
from mail.documents.kinds import Unread, Unreadable
from tests.mail.document_kit import CLAMD_LIMIT, clamd, eicar
from tests.support.ports import reserved_port

pytestmark = pytest.mark.req("U-06")


def test_the_test_file_is_found_and_others_are_clean() -> None:
    large = bytes(CLAMD_LIMIT - 1)
    with clamd() as server:
        assert scan(server.url, eicar()) == "Eicar-Test-Signature"
        assert scan(server.url, large) == ""
        assert scan(server.url, b"") == ""
    assert server.seen == [eicar(), large, b""]


def test_what_is_too_large_for_it_is_refused_by_name() -> None:
    with clamd() as server, pytest.raises(Unreadable) as refused:
        scan(server.url, bytes(50 * CLAMD_LIMIT))
    assert refused.value.reason == Unread.NOT_SCANNABLE


def test_a_scanner_that_is_away_may_answer_later() -> None:
    with reserved_port() as port:
        for url in (f"tcp://127.0.0.1:{port}", "unix:/nowhere/clamd.ctl"):
            with pytest.raises(ScannerUnavailable):
                scan(url, b"x")
