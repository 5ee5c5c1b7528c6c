"""The forms of reply settings: what they cannot take is said at its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from mail.models import ReplyStyle
from mail.services.drafting.reply_rows import create_reply_row
from tenants.models import Firm, Role
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import now, operation_url, submit

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-19", "O-03")]

NEW = "/admin/mail/replystyle/new/"
EXAMPLE = {"context": "eine Anfrage", "input": "Größe?", "draft": "Groß."}


@pytest.fixture
def browser(firm: Firm) -> Client:
    user = UserFactory(is_staff=True, member_of=firm, member_of__role=Role.ADMIN)
    client = Client()
    client.force_login(user)
    return client


def style_with(browser: Client, examples: str) -> Any:
    form = {"name": "warm", "language": "auto", "examples": examples}
    return browser.post(NEW, form)


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param("[" * 5000 + "]" * 5000, id="too deep"),
        pytest.param(json.dumps([EXAMPLE | {"draft": "\ud800"}]), id="no text"),
        pytest.param(json.dumps([EXAMPLE | {"draft": "a\0b"}]), id="NUL"),
        pytest.param('[{"draft": "Groß."', id="no JSON"),
        pytest.param(json.dumps([EXAMPLE | {"draft": "x" * 501}]), id="too long"),
    ],
)
def test_examples_that_cannot_be_stored_are_refused_and_stay_in_the_form(
    browser: Client, examples: str
) -> None:
    answer = style_with(browser, examples)
    assert answer.status_code == 400
    (fault,) = answer.context["form"].errors["examples"]
    assert "JSON" in fault or "each a text of 1 to 500 characters" in fault
    assert answer.context["form"]["examples"].value() == examples


def test_examples_are_shown_as_they_are_read(browser: Client, firm: Firm) -> None:
    assert style_with(browser, json.dumps([EXAMPLE])).status_code == 302
    style = create_reply_row(ReplyStyle, firm.pk, name="formal", examples=[EXAMPLE])
    assert "Größe?" in browser.get(operation_url(style, "edit")).content.decode()
    assert submit(browser, style, "edit", sign_off="Grüße").status_code == 302
    stored = now(style)
    assert (stored.sign_off, stored.examples) == ("Grüße", [EXAMPLE])
