"""The OpenAPI schema and its pages: complete, valid, and without other servers."""

from __future__ import annotations

import io
import re
from http import HTTPStatus
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from interfaces.api import schema as api_schema
from interfaces.api import schema_view
from interfaces.correlation import correlation
from jobs.api.urls import urlpatterns as of_jobs
from mail.api.urls import urlpatterns as of_mail

pytestmark = [pytest.mark.req("O-02")]

PROBLEM = "application/problem+json"
ALWAYS = {"400", "401", "403", "404", "406", "429", "503"}
OF_CHANGES = {"409", "413", "415"}
CONFLICTING_READS = {"/api/v1/mail/data-requests/{id}/download/"}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    return [
        (path, method, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_schema_is_valid_and_free_of_warnings() -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    assert out.getvalue().startswith("openapi: 3")


def test_every_operation_is_described() -> None:
    found = operations()
    answered = [
        method
        for route in [*of_jobs, *of_mail]
        for method in ("get", "post", "patch")
        if method in route.callback.actions
    ]
    assert len(found) == len(answered)
    ids = [operation["operationId"] for _, _, operation in found]
    assert len(set(ids)) == len(ids)
    for path, _, operation in found:
        assert operation["summary"], path
        assert operation["description"], path
        assert len(operation["tags"]) == 1, path
        assert operation["security"] == [{"apiKey": []}, {"cookieAuth": []}], path


def test_enqueueing_says_what_a_taken_key_does_and_who_may_export_the_firm() -> None:
    said = {(path, method): operation["description"] for path, method, operation in operations()}
    for path in ("jobs/", "jobs/chain/"):
        description = said[f"/api/v1/jobs/admin/{path}", "post"]
        # A key may stay taken when its job is over: once_only, unique_for.
        assert "live job" not in description
        assert "unless `on_conflict`" in description
        assert description.endswith("Needs the role developer; for a firm_export, the role admin.")
    schema = SchemaGenerator().get_schema(request=None, public=True)
    bodies = [one.get("properties", {}) for one in schema["components"]["schemas"].values()]
    keys = [body["idempotency_key"]["description"] for body in bodies if "on_conflict" in body]
    assert keys
    for description in keys:
        assert "live job" not in description


def test_every_refusal_is_described_as_a_problem() -> None:
    for path, method, operation in operations():
        answers = operation["responses"]
        expected = ALWAYS | (set() if method == "get" else OF_CHANGES)
        if path in CONFLICTING_READS:
            expected = expected | {"409"}
        assert {status for status in answers if status >= "400"} == expected, path
        for status in expected:
            content = answers[status]["content"][PROBLEM]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, path
            (example,) = content["examples"].values()
            assert example["value"]["status"] == int(status)


def test_every_operation_says_what_it_answers_when_it_succeeds() -> None:
    found = {
        (method, path): {
            status: [*answer.get("content", ())]
            for status, answer in operation["responses"].items()
            if status < "400"
        }
        for path, method, operation in operations()
    }
    assert [place for place, answers in found.items() if not answers] == []
    zipped = found["get", "/api/v1/mail/data-requests/{id}/download/"]
    assert zipped == {"200": ["application/zip"]}


def test_every_operation_that_changes_something_shows_an_example_of_its_body() -> None:
    changes = [operation for _, method, operation in operations() if method != "get"]
    assert all(
        change["requestBody"]["content"]["application/json"]["examples"] for change in changes
    )


@pytest.mark.django_db
def test_the_schema_is_served() -> None:
    answer = Client().get("/api/v1/schema/", headers={"Accept": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["info"]["title"] == "Mailroom"


@pytest.mark.django_db
@pytest.mark.parametrize(("wanted", "start"), [("json", b"{"), ("yaml", b"openapi: 3")])
def test_the_schemas_format_can_be_chosen_in_its_address(wanted: str, start: bytes) -> None:
    # Browsers accept any format.
    answer = Client().get("/api/v1/schema/", {"format": wanted}, headers={"Accept": "*/*"})
    assert answer.headers["Content-Type"].split(";")[0] == f"application/{wanted}"
    assert answer.content.startswith(start)


@pytest.mark.django_db
def test_the_schema_is_made_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def get_schema(self: object, **options: object) -> dict[str, object]:
        made.append(self)
        return {"openapi": "3.0.3"}

    monkeypatch.setattr(schema_view, "_documents", {})
    monkeypatch.setattr(SchemaGenerator, "get_schema", get_schema)
    for query in ({}, {"lang": "de"}, {"version": "x"}):
        answer = Client().get("/api/v1/schema/", {"format": "json", **query})
        assert answer.json() == {"openapi": "3.0.3"}
    assert len(made) == 1


def test_the_examples_hold_nothing_of_the_request_in_which_they_are_made() -> None:
    # The first request of a process imports the views.
    with correlation("by a stranger"):
        refusal = api_schema._refusal(HTTPStatus.CONFLICT, "wrong_state", "It is too late.")
    (example,) = refusal.examples
    assert example.value["correlation_id"] == api_schema.EXAMPLE_CORRELATION_ID


@pytest.mark.django_db
def test_a_format_that_the_schema_does_not_have_is_refused() -> None:
    answer = Client().get("/api/v1/schema/", {"format": "xml"})
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == ["format"]


def test_every_body_says_that_it_takes_no_other_fields() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    bodies = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for _, _, operation in operations()
        if "requestBody" in operation
    }
    assert len(bodies) > 8
    for name in bodies:
        assert schema["components"]["schemas"][name]["additionalProperties"] is False, name
    # Answers may get more fields later.
    assert "additionalProperties" not in schema["components"]["schemas"]["JobRow"]


@pytest.mark.django_db
@pytest.mark.req("E-01")
def test_the_documentation_needs_no_other_server() -> None:
    client = Client()
    page = client.get("/api/v1/docs/").content.decode()
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    for link in links:
        assert link.startswith("/static/"), link
        assert client.get(link).status_code == 200, link
    assert not re.search(r"https?://", page)
