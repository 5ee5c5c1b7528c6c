"""`manage.py pauses`: pausing, listing and resuming."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from interfaces.moments import iso
from jobs.models import Pause
from jobs.operations.limits import pause
from tenants.cli import operator
from tenants.models import AuditEntry, Firm
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-23", "O-04")]

Runner = Callable[..., Any]
WHY = ("--reason", "stop")


def test_a_firm_is_paused_listed_and_resumed(run: Runner, firm: Firm, other_firm: Firm) -> None:
    until = iso(timezone.now() + timedelta(hours=1))
    narrow = ("--category", "maintenance", "--type", "noop", "--until", until)
    added = run("pauses", "add", "--firm", "acme", *narrow, *WHY, "--json")
    assert added.code == 0
    assert {**added.json, "id": "", "created_at": ""} == {
        "id": "",
        "firm": "acme",
        "everywhere": False,
        "category": "maintenance",
        "job_type": "noop",
        "limit_key": None,
        "reason": "stop",
        "paused_by": operator().name,
        "created_at": "",
        "until": until,
    }
    assert run("pauses", "list", "--json").json == {"results": [added.json], "next": None}
    assert run("pauses", "list", "--firm", "globex", "--json").json["results"] == []
    assert "noop" in run("pauses", "list").out
    resumed = run("pauses", "resume", added.json["id"][:23], "--reason", "calm", "--json")
    assert (resumed.code, resumed.json) == (0, added.json)
    assert rows(Pause) == []
    log = [(entry.act, entry.door, entry.reason) for entry in rows(AuditEntry)]
    assert log == [("pause.set", "cli", "stop"), ("pause.lift", "cli", "calm")]
    assert "Nothing is paused" in run("pauses", "list").out


@pytest.mark.req("J-24")
def test_one_limit_key_is_paused(run: Runner, firm: Firm) -> None:
    done = run("pauses", "add", "--firm", "acme", "--limit-key", "mailbox:1", *WHY, "--json")
    assert (done.json["limit_key"], done.json["job_type"]) == ("mailbox:1", None)
    assert "mailbox:1" in run("pauses", "list").out


def test_everywhere_is_said_or_a_firm_is_named(run: Runner, firm: Firm) -> None:
    assert run("pauses", "add", *WHY).code == 2
    assert run("pauses", "add", "--everywhere", "--firm", "acme", *WHY).code == 2
    assert rows(Pause) == []
    done = run("pauses", "add", "--everywhere", *WHY, "--json")
    assert (done.json["firm"], done.json["everywhere"]) == (None, True)
    assert "every firm" in run("pauses", "list").out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("add", "--firm", "acme"), 2),
        (("add", "--firm", "acme", "--category", "exports", *WHY), 2),
        (("add", "--firm", "acme", "--until", "soon", *WHY), 2),
        (("add", "--firm", "acme", "--until", "9999-12-31T23:59:59-05:00", *WHY), 2),
        (("add", "--firm", "acme", "--until", "2001-01-01", *WHY), 1),
        (("add", "--firm", "acme", "--type", "nopo", *WHY), 1),
        (("add", "--firm", "acme", "--type", "noop", "--category", "sync", *WHY), 1),
        (("add", "--firm", "acme", "--reason", " "), 1),
        (("add", "--firm", "nowhere", *WHY), 3),
        (("list", "--cursor", "x"), 2),
        (("list", "--firm", "nowhere"), 3),
        (("resume", "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27"), 3),
    ],
    ids=lambda value: " ".join(value[:5:2]) if isinstance(value, tuple) else str(value),
)
def test_refusals_have_their_exit_codes(
    run: Runner, firm: Firm, arguments: tuple[str, ...], code: int
) -> None:
    assert run("pauses", *arguments).code == code
    assert rows(Pause) == []


def test_a_refusal_says_what_is_wrong(run: Runner, firm: Firm, other_firm: Firm) -> None:
    refused = run("pauses", "add", "--firm", "acme", "--type", "nopo", *WHY, "--json")
    assert refused.json["errors"][0]["field"] == "job_type"
    assert "did you mean noop?" in refused.err
    paused = pause(firm=firm, reason="stop")
    again = run("pauses", "add", "--firm", "acme", *WHY, "--json")
    assert (again.code, again.json["code"]) == (1, "wrong_state")
    assert run("pauses", "resume", str(paused.pk), "--firm", "globex").code == 3
    assert rows(Pause) == [paused]
