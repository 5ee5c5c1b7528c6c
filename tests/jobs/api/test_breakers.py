"""Circuit breakers over REST: they are listed, and opened and closed by hand."""

from __future__ import annotations

import pytest

from jobs.models import CircuitBreaker
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, problem
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "O-07")]

OUTAGE = {"job_type": "sync", "reason": "the provider announced an outage"}


def states() -> dict[tuple[str, str], str]:
    """Return the states of the breakers that the fixtures did not make."""
    return {
        (one.firm.slug, one.job_type): one.state
        for one in rows(CircuitBreaker)
        if not one.job_type.startswith("canary")
    }


@pytest.mark.req("T-05")
def test_a_breaker_is_opened_listed_and_closed(operator: Api, acme: FirmRows) -> None:
    answer = operator.post("breakers/", OUTAGE)
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    assert shown == {
        "id": shown["id"],
        "firm": "acme",
        "job_type": "sync",
        "limit_key": None,
        "state": "open",
        "attempts": 0,
        "failed": 0,
        "trips": 1,
        "fingerprint": None,
        "opened_at": shown["opened_at"],
        "next_try_at": shown["next_try_at"],
        "probe_job_id": None,
    }
    assert shown["opened_at"] < shown["next_try_at"]
    assert shown in operator.results("breakers/")
    assert problem(operator.post("breakers/", OUTAGE), 409)["code"] == "wrong_state"
    where = f"breakers/{shown['id']}/close/"
    closed = operator.post(where, {"reason": "it answers again"})
    assert closed.status_code == 200
    assert closed.json() == {
        **shown, "state": "closed", "trips": 0, "opened_at": None, "next_try_at": None,
    }  # fmt: skip
    assert states() == {("acme", "sync"): "closed"}
    of_key = operator.post("breakers/", {**OUTAGE, "limit_key": "mailbox:1"}).json()
    assert (of_key["limit_key"], of_key["state"]) == ("mailbox:1", "open")
    operator.post(f"breakers/{of_key['id']}/close/", {"reason": "it answers again"})
    problem(operator.post(where, {"reason": "again"}), 409)
    assert [(entry.act, entry.door, entry.reason) for entry in audit_log()] == [
        ("breaker.open", "api", OUTAGE["reason"]),
        ("breaker.close", "api", "it answers again"),
    ] * 2


def test_a_reason_is_obligatory_and_the_type_has_to_declare_a_breaker(
    operator: Api, acme: FirmRows
) -> None:
    assert fields(operator.post("breakers/", {**OUTAGE, "limit_key": None})) == {
        "limit_key": "null"
    }
    assert fields(operator.post("breakers/", {"job_type": "sync"})) == {"reason": "required"}
    assert fields(operator.post(f"breakers/{acme.breaker.pk}/close/")) == {"reason": "required"}
    for job_type in ("noop", "nopo"):
        refused = operator.post("breakers/", {**OUTAGE, "job_type": job_type})
        assert fields(refused) == {"job_type": "no_breaker"}
    assert states() == {}
    assert audit_log() == []


@pytest.mark.req("T-03")
def test_another_firms_breakers_are_out_of_reach(
    operator: Api, staff: Api, acme: FirmRows, globex: FirmRows
) -> None:
    problem(operator.post("breakers/", {**OUTAGE, "firm": "globex"}), 404)
    problem(operator.post(f"breakers/{globex.breaker.pk}/close/", OUTAGE), 404)
    assert [row["firm"] for row in operator.results("breakers/")] == ["acme"]
    assert fields(staff.post("breakers/", OUTAGE)) == {"firm": "required"}
    assert staff.post("breakers/", {**OUTAGE, "firm": "globex"}).json()["firm"] == "globex"
    assert states() == {("globex", "sync"): "open"}
