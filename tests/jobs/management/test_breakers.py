"""`manage.py breakers`: opening, listing and closing circuit breakers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.models import CircuitBreaker
from tenants.models import AuditEntry, Firm
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-04")]

Runner = Callable[..., Any]
WHY = ("--reason", "the provider is down")
UNKNOWN = "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27"


def log() -> list[tuple[str, str, str]]:
    return [(entry.act, entry.door, entry.reason) for entry in rows(AuditEntry)]


@pytest.mark.req("O-07", "T-05")
@pytest.mark.usefixtures("stopped_clock")
def test_a_breaker_is_opened_listed_and_closed(run: Runner, firm: Firm, other_firm: Firm) -> None:
    assert "No circuit breaker has recent failures" in run("breakers", "list").out
    opened = run("breakers", "open", "--firm", "acme", "--type", "sync", *WHY, "--json")
    assert opened.code == 0
    assert (opened.json["firm"], opened.json["state"], opened.json["trips"]) == ("acme", "open", 1)
    assert run("breakers", "list", "--json").json == {"results": [opened.json], "next": None}
    assert run("breakers", "list", "--firm", "globex", "--json").json["results"] == []
    table = run("breakers", "list").out
    assert "sync" in table
    assert "in 30 s" in table
    closed = run("breakers", "close", opened.json["id"][:23], "--reason", "well", "--json")
    assert (closed.code, closed.json["state"]) == (0, "closed")
    assert [one.state for one in rows(CircuitBreaker)] == ["closed"]
    assert log() == [("breaker.open", "cli", WHY[1]), ("breaker.close", "cli", "well")]
    again = run("breakers", "close", opened.json["id"], "--reason", "well", "--json")
    assert (again.code, again.json["code"]) == (1, "wrong_state")


@pytest.mark.req("O-07", "J-24")
def test_one_of_a_limit_key_is_opened(run: Runner, firm: Firm) -> None:
    of_sync = ("open", "--firm", "acme", "--type", "sync", *WHY)
    opened = run("breakers", *of_sync, "--limit-key", "mailbox:1", "--json").json
    assert (opened["limit_key"], opened["state"]) == ("mailbox:1", "open")
    assert run("breakers", *of_sync, "--json").json["limit_key"] is None
    assert "mailbox:1" in run("breakers", "list").out


@pytest.mark.req("O-07")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("open", "--type", "sync", *WHY), 2),
        (("open", "--firm", "acme", "--type", "sync"), 2),
        (("open", "--firm", "acme", "--type", "noop", *WHY), 1),
        (("open", "--firm", "acme", "--type", "sync", "--reason", " "), 1),
        (("open", "--firm", "nowhere", "--type", "sync", *WHY), 3),
        (("close", UNKNOWN, *WHY), 3),
        (("close", UNKNOWN), 2),
        (("list", "--cursor", "x"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_refusals_of_breakers_have_their_exit_codes(
    run: Runner, firm: Firm, arguments: tuple[str, ...], code: int
) -> None:
    assert run("breakers", *arguments).code == code
    assert rows(CircuitBreaker) == []
