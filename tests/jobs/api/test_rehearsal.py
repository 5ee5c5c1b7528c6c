"""`dlq/{id}/rehearse/` over REST."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.engine.redaction import REDACTED_VALUE
from tenants.models import Role
from tests.factories.jobs import envelope
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-07", "O-01")]


def test_the_answer_is_what_the_job_would_do(acme: FirmRows, tried_rehearsals: list[Any]) -> None:
    api = Api(key_for(acme.firm, Role.DEVELOPER))
    path = f"dlq/{acme.dead_letter.pk}/rehearse/"
    answer = api.post(path, {"payload": {**envelope(acme.firm.pk), "correlation_id": "mended"}})
    assert answer.status_code == 200, answer.content
    report = answer.json()
    assert (report["dead_letter_id"], report["job_id"]) == (
        str(acme.dead_letter.pk),
        str(acme.dead.pk),
    )
    assert (report["outcome"], report["delay_seconds"]) == ("retried", 30.0)
    assert report["error"]["error_class"] == "TimeoutError"
    assert report["writes"][0]["inserted"] == 3
    assert report["children"][0]["payload"] == {"password": REDACTED_VALUE, "to": "x"}
    assert report["children"][0]["scheduled_at"] == "2026-03-02T09:14:07.000Z"
    assert report["calls"] == [{"kind": "network", "target": "mail.example:443", "count": 2}]
    assert len(tried_rehearsals) == 1
    assert [(entry.act, entry.door) for entry in audit_log()] == [("dead_letter.rehearse", "api")]


def test_bad_input_is_named(acme: FirmRows) -> None:
    api = Api(key_for(acme.firm, Role.DEVELOPER))
    path = f"dlq/{acme.dead_letter.pk}/rehearse/"
    assert fields(api.post(path, {"payload": 5})) == {"payload": "not_a_dict"}
    assert fields(api.post(path, {"note": "x"})) == {"note": "unknown_field"}
    assert api.post(f"dlq/{acme.dead_letter.pk}/reprocess/").status_code == 200
    assert problem(api.post(path), 409)["code"] == "wrong_state"
    assert [entry.act for entry in audit_log()] == ["dead_letter.reprocess"]
