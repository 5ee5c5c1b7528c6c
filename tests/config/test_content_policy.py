"""What a browser may load and do: nothing on answers that are no pages, nothing foreign on pages."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-22")]


def policy(address: str) -> dict[str, str]:
    header = Client().get(address).headers["Content-Security-Policy"]
    return dict(part.strip().partition(" ")[::2] for part in header.split(";"))


@pytest.mark.parametrize("address", ["/healthz", "/api/v1/mail/messages/", "/readyz"])
def test_what_is_no_page_may_do_nothing(address: str) -> None:
    assert set(policy(address).values()) == {"'none'"}


@pytest.mark.parametrize("address", ["/admin/login/", "/api/v1/docs/", "/approvals/made-up/"])
def test_a_page_loads_nothing_foreign_and_is_framed_by_nobody(address: str) -> None:
    found = policy(address)
    assert found["default-src"] == found["frame-ancestors"] == found["base-uri"] == "'none'"
    assert found["img-src"] == "'self' data:"
    assert found["connect-src"] == "'self'"
    assert "http" not in found["script-src"] + found["style-src"]


def test_the_consent_page_on_this_machine_is_a_forms_target(settings: Settings) -> None:
    settings.GMAIL_API_BASE = "http://127.0.0.1:8085"
    assert policy("/admin/login/")["form-action"] == "'self' https: http://127.0.0.1:8085"
