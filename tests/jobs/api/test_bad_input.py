"""Invalid requests: the answer is a problem that names the field, and nothing changes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interfaces.api.parsers import MAX_BODY_BYTES
from jobs.api.urls import urlpatterns
from jobs.operations import dead_letters
from tests.jobs.api.conftest import ROOT, Api, FirmRows, audit_log, fields, problem
from tests.queue_kit import row

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "O-02")]

ID_IN_ROUTE = re.compile(r"<uuid:\w+>")
# The URLs of all operations on a row.
OPERATIONS = [
    str(pattern.pattern)
    for pattern in urlpatterns
    if ID_IN_ROUTE.search(str(pattern.pattern)) and "post" in pattern.callback.actions
]


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("jobs/", {"colour": "red"}, {"colour": "unknown_field"}),
        ("jobs/", {"status": "lost"}, {"status": "invalid_choice"}),
        ("jobs/", {"status": ""}, {"status": "invalid_choice"}),
        ("jobs/", {"status": ["dlq", "failed"]}, {"status": "repeated"}),
        ("jobs/", {"category": "Export"}, {"category": "invalid_choice"}),
        ("jobs/", {"limit": "0"}, {"limit": "min_value"}),
        ("jobs/", {"limit": "201"}, {"limit": "max_value"}),
        ("jobs/", {"limit": "ten"}, {"limit": "invalid"}),
        ("jobs/", {"created_after": "yesterday"}, {"created_after": "invalid"}),
        ("jobs/", {"created_after": "0001-01-01T00:00:00Z"}, {"created_after": "out_of_range"}),
        ("jobs/", {"created_before": "9999-12-31T23:59:59Z"}, {"created_before": "out_of_range"}),
        ("jobs/", {"error": "a\x00b"}, {"error": "null_characters_not_allowed"}),
        ("jobs/", {"search": "x" * 501}, {"search": "max_length"}),
        ("jobs/", {"search": " " * 501}, {"search": "max_length"}),
        (
            "jobs/",
            {"colour": "red", "limit": "-1"},
            {"colour": "unknown_field", "limit": "min_value"},
        ),
        ("dlq/", {"resolution": "closed"}, {"resolution": "invalid_choice"}),
        ("dlq/", {"reason": "bad luck"}, {"reason": "invalid_choice"}),
        ("dlq/", {"created_after": "yesterday"}, {"created_after": "invalid"}),
        ("dlq/", {"created_before": "0001-01-01T00:00:00Z"}, {"created_before": "out_of_range"}),
        ("dlq/", {"search": ""}, {"search": "blank"}),
        ("dlq/", {"search": "a\x00b"}, {"search": "null_characters_not_allowed"}),
        ("workers/", {"firm": "acme"}, {"firm": "unknown_field"}),
        ("workers/", {"state": "asleep"}, {"state": "invalid_choice"}),
        ("workers/", {"category": "mail"}, {"category": "invalid_choice"}),
        ("workers/", {"host": "h" * 201}, {"host": "max_length"}),
        ("queues/", {"limit": "5"}, {"limit": "unknown_field"}),
        ("locks/", {"lock_key": "k"}, {"lock_key": "unknown_field"}),
        ("locks/", {"kind": "robot"}, {"kind": "invalid_choice"}),
        ("locks/", {"search": "k" * 201}, {"search": "max_length"}),
    ],
)
def test_a_wrong_query_parameter_is_named(
    path: str, query: dict[str, Any], expected: dict[str, str], viewer: Api
) -> None:
    assert fields(viewer.get(path, query)) == expected


@pytest.mark.parametrize(
    ("operation", "body", "expected"),
    [
        ("discard", {"reason": "x", "force": True}, {"force": "unknown_field"}),
        ("discard", {"reason": 5}, {"reason": "invalid"}),
        ("discard", {"reason": ["x"]}, {"reason": "invalid"}),
        ("discard", {"reason": "a\x00b"}, {"reason": "null_characters_not_allowed"}),
        ("discard", {"reason": "\ud800"}, {"reason": "surrogate_characters_not_allowed"}),
        ("discard", {"reason": "x", "\ud800": 1}, {"?": "unknown_field"}),
        ("discard", {"reason": "x" * 2001}, {"reason": "max_length"}),
        ("reprocess", {"note": "\f" * 2001}, {"note": "max_length"}),
        ("discard", ["reason"], {"": "invalid"}),
        ("discard", "reason", {"": "invalid"}),
        ("reprocess", {"priority": 4}, {"priority": "max_value"}),
        ("reprocess", {"priority": "1"}, {"priority": "invalid"}),
        ("reprocess", {"priority": True}, {"priority": "invalid"}),
        ("reprocess", {"payload": []}, {"payload": "not_a_dict"}),
        ("reprocess", {"payload": None}, {"payload": "null"}),
        ("reprocess", {"payload": {"\ud800": 1}}, {"?": "surrogate"}),
        ("escalate", {"reason": "x", "assigned_to": "nobody"}, {"assigned_to": "invalid"}),
    ],
)
def test_a_wrong_field_is_named(
    operation: str, body: object, expected: dict[str, str], operator: Api, acme: FirmRows
) -> None:
    found = fields(operator.post(f"dlq/{acme.dead_letter.pk}/{operation}/", body))
    assert expected.items() <= found.items()
    assert row(acme.dead.pk).status == "dlq"
    assert audit_log() == []


def deep(levels: int) -> bytes:
    return b'{"payload": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", set()),
        (b'{"reason": "x"', set()),
        (b"\xff\xfe", set()),
        (b'{"priority": NaN}', set()),
        (b'{"priority": -Infinity}', set()),
        (b'{"note": "a", "note": "b"}', {"note"}),
        (b'{"payload": {"a": 1, "a": 2}}', {"a"}),
        (rb'{"\ud800": 1, "\ud800": 2}', {"\N{REPLACEMENT CHARACTER}"}),
        (b'{"priority": ' + b"9" * 5000 + b"}", set()),
        (deep(100_000), set()),
        (b"{} {}", set()),
    ],
)
def test_a_body_that_is_not_strict_json_is_malformed(
    body: bytes, named: set[str], operator: Api, acme: FirmRows
) -> None:
    found = problem(operator.post_raw(f"dlq/{acme.dead_letter.pk}/reprocess/", body), 400)
    assert found["code"] == "malformed"
    assert {fault["field"] for fault in found["errors"]} == named
    assert row(acme.dead.pk).status == "dlq"


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (deep(40), "too_deep"),
        (b'{"payload": {"a": 1e999}}', "nan"),
        (b'{"payload": {"a": "\\u0000"}}', "nul"),
        (json.dumps({"payload": {"a": "x" * 300_000}}).encode(), "too_large"),
    ],
)
def test_what_json_allows_and_payloads_do_not(
    body: bytes, code: str, operator: Api, acme: FirmRows
) -> None:
    answer = operator.post_raw(f"dlq/{acme.dead_letter.pk}/reprocess/", body)
    assert code in fields(answer).values()
    assert row(acme.dead.pk).status == "dlq"


def test_a_body_that_is_too_large_is_not_read(operator: Api, acme: FirmRows) -> None:
    body = json.dumps({"note": "x" * MAX_BODY_BYTES}).encode()
    answer = operator.post_raw(f"dlq/{acme.dead_letter.pk}/reprocess/", body)
    assert problem(answer, 413)["code"] == "body_too_large"
    assert row(acme.dead.pk).status == "dlq"


def test_a_body_that_is_not_json_is_not_read(operator: Api, acme: FirmRows) -> None:
    path = f"dlq/{acme.dead_letter.pk}/discard/"
    answer = operator.post_raw(path, b"reason=x", content_type="application/x-www-form-urlencoded")
    problem(answer, 415)
    assert row(acme.dead.pk).status == "dlq"


def test_only_json_can_be_asked_for(viewer: Api) -> None:
    problem(viewer.get("jobs/", Accept="text/html"), 406)


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options", "trace"])
def test_other_methods_are_refused(method: str, viewer: Api) -> None:
    answer = getattr(viewer.client, method)(ROOT + "jobs/", headers=viewer.headers)
    assert "GET" in answer["Allow"]
    problem(answer, 405)


@pytest.mark.parametrize(
    "path",
    [
        "jobs/not-a-uuid/",
        "jobs/0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27/",
        "dlq/1/",
        "nothing/",
        "jobs/%00/",
        "jobs/0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27/why/",
    ],
)
def test_what_does_not_exist_is_not_found(path: str, viewer: Api) -> None:
    assert problem(viewer.get(path), 404)["code"] == "not_found"


@pytest.mark.parametrize("route", OPERATIONS)
def test_operations_on_what_does_not_exist_are_not_found(
    route: str, admin: Api, staff: Api
) -> None:
    # Workers serve every firm, so only platform staff may operate on them.
    caller = staff if route.startswith("workers/") else admin
    for missing in ("0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27", "x"):
        path = ID_IN_ROUTE.sub(missing, route)
        assert problem(caller.post(path, {"reason": "x"}), 404)["code"] == "not_found"


def test_too_many_parameters_are_a_bad_request(viewer: Api) -> None:
    query = {f"p{number}": "" for number in range(1001)}
    assert problem(viewer.get("jobs/", query), 400)["code"] == "bad_request"


def test_a_bug_here_is_a_500_that_tells_nothing_and_changes_nothing(
    operator: Api, acme: FirmRows, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = dead_letters.audit

    # Audit is the operation's last step, so all other changes have to be rolled back.
    def audit_and_break(*args: Any, **kwargs: Any) -> None:
        audit(*args, **kwargs)
        raise RuntimeError("the inner workings")

    monkeypatch.setattr(dead_letters, "audit", audit_and_break)
    answer = operator.post(f"dlq/{acme.dead_letter.pk}/discard/", {"reason": "x"})
    assert problem(answer, 500)["code"] == "internal_error"
    assert "inner" not in answer.content.decode()
    assert row(acme.dead.pk).status == "dlq"
    assert audit_log() == []
    assert "the inner workings" in caplog.text


def test_pages_outside_the_api_keep_their_own_errors(viewer: Api) -> None:
    answer = viewer.client.get("/nothing/")
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("text/html")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200) | st.text(max_size=80).map(lambda text: text.encode()))
def test_no_body_at_all_breaks_anything(operator: Api, acme: FirmRows, body: bytes) -> None:
    problem(operator.post_raw(f"dlq/{acme.dead_letter.pk}/discard/", body), 400)
    assert row(acme.dead.pk).status == "dlq"
