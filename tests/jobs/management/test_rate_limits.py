"""`manage.py rate_limits`: setting, listing and clearing rate limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.models import RateLimit
from tenants.models import AuditEntry, Firm
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-04")]

Runner = Callable[..., Any]
RATE = ("--type", "noop", "--amount", "10", "--per", "60")
UNKNOWN = "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27"


def log() -> list[tuple[str, str, str]]:
    return [(entry.act, entry.door, entry.reason) for entry in rows(AuditEntry)]


@pytest.mark.req("J-23", "T-05")
def test_a_rate_limit_is_set_listed_and_cleared(run: Runner, firm: Firm, other_firm: Firm) -> None:
    done = run("rate_limits", "set", "--firm", "acme", *RATE, "--burst", "3", "--json")
    assert done.code == 0
    assert {**done.json, "id": "", "created_at": ""} == {
        "id": "",
        "firm": "acme",
        "everywhere": False,
        "counted_by": "firm",
        "job_type": "noop",
        "limit_key": None,
        "amount": 10,
        "per_seconds": 60.0,
        "burst": 3,
        "created_at": "",
    }
    assert run("rate_limits", "list", "--json").json == {"results": [done.json], "next": None}
    assert run("rate_limits", "list", "--firm", "globex", "--json").json["results"] == []
    assert "noop" in run("rate_limits", "list").out
    cleared = run("rate_limits", "clear", done.json["id"][:23], "--reason", "calm", "--json")
    assert (cleared.code, cleared.json) == (0, done.json)
    assert rows(RateLimit) == []
    assert [act for act, door, _ in log() if door == "cli"] == [
        "rate_limit.set",
        "rate_limit.clear",
    ]
    assert "No rate limits" in run("rate_limits", "list").out


@pytest.mark.req("J-24")
def test_limits_of_keys_and_of_all_firms_are_set_and_shown(run: Runner, firm: Firm) -> None:
    numbers = ("--amount", "250", "--per", "1", "--json")
    by_key = ("--counted-by", "key", "--limit-key", "mailbox:1")
    of_key = run("rate_limits", "set", "--firm", "acme", *by_key, *numbers).json
    assert (of_key["counted_by"], of_key["job_type"], of_key["limit_key"]) == (
        *("key", None, "mailbox:1"),
    )
    of_all = ("--everywhere", "--type", "noop", "--counted-by", "all_firms")
    shown = run("rate_limits", "set", *of_all, *numbers).json
    assert (shown["counted_by"], shown["firm"]) == ("all_firms", None)
    table = run("rate_limits", "list").out
    assert "mailbox:1" in table
    assert "all_firms" in table
    assert run("rate_limits", "set", "--firm", "acme", *numbers).code == 1
    assert run("rate_limits", "set", "--everywhere", "--counted-by", "x", *numbers).code == 2


@pytest.mark.req("J-23")
def test_a_rate_limit_everywhere_is_said(run: Runner, firm: Firm) -> None:
    assert run("rate_limits", "set", *RATE).code == 2
    assert run("rate_limits", "set", "--everywhere", "--firm", "acme", *RATE).code == 2
    assert rows(RateLimit) == []
    assert run("rate_limits", "set", "--everywhere", *RATE, "--json").json["firm"] is None
    assert "every firm" in run("rate_limits", "list").out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "--firm", "acme", "--type", "noop"), 2),
        (("set", "--firm", "acme", "--type", "nopo", "--amount", "1", "--per", "1"), 1),
        (("set", "--firm", "acme", "--type", "noop", "--amount", "0", "--per", "1"), 1),
        (("set", "--firm", "acme", "--type", "noop", "--amount", "x", "--per", "1"), 2),
        (("set", "--firm", "acme", "--type", "noop", "--amount", "1", "--per", "nan"), 1),
        (("set", "--firm", "nowhere", *RATE), 3),
        (("clear", UNKNOWN), 3),
        (("list", "--cursor", "x"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_refusals_of_rate_limits_have_their_exit_codes(
    run: Runner, firm: Firm, arguments: tuple[str, ...], code: int
) -> None:
    assert run("rate_limits", *arguments).code == code
    assert rows(RateLimit) == []
