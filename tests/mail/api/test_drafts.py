"""Drafts over REST: listed, shown, reworked, discarded."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from mail.models import Draft
from mail.services.mailboxes.connect_account import disconnect_account
from tenants.models import Firm, Role
from tests.mail.draft_kit import asked, edit, in_gmail, listed, prepared, the_thread, versions
from tests.mail.mail_kit import Mailbox, drain, jobs, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19", "M-22")]

ROOT = "/api/v1/mail/drafts/"


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, firm: Firm, role: Role) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(firm, role)}"}

    def get(self, path: str = "", **query: Any) -> Any:
        return Client().get(ROOT + path, query, headers=self.headers)

    def post(self, row: Draft, operation: str, **body: object) -> Any:
        return Client().post(
            f"{ROOT}{row.pk}/{operation}/",
            body,
            content_type="application/json",
            headers=self.headers,
        )


@pytest.fixture
def draft(mailbox: Mailbox) -> Draft:
    """Return a draft in Gmail."""
    asked(prepared(mailbox))
    row: Draft = stored(Draft)[0]
    return row


def test_they_are_listed_and_shown(mailbox: Mailbox, draft: Draft) -> None:
    api = Api(mailbox.firm, Role.VIEWER)
    (row,) = api.get(status="ready", thread_id=str(draft.thread_id)).json()["results"]
    shown = api.get(f"{draft.pk}/").json()
    assert row.items() <= shown.items()
    assert (row["source"], row["template_name"], row["edited"]) == ("template", "built-in", False)
    assert [one["address"] for one in row["to"]] == ["anna@customer.example"]
    assert "[TODO: answer]" in shown["text"]
    assert api.post(draft, "discard").status_code == 403


def test_one_is_reworked_as_ordered(mailbox: Mailbox, draft: Draft) -> None:
    api = Api(mailbox.firm, Role.OPERATOR)
    answer = api.post(draft, "rework", instruction="Offer a call.", reason="Too long")
    assert answer.status_code == 200
    drain()
    assert "Offer a call." in in_gmail(mailbox)[0].get_content()
    assert versions() == [("automatic", "replaced", 0), ("rework", "ready", 1)]
    assert api.post(draft, "rework").status_code == 409


@pytest.mark.parametrize("operation", ["rework", "discard"])
def test_nothing_is_done_to_one_in_a_disconnected_mailbox(
    mailbox: Mailbox, draft: Draft, operation: str
) -> None:
    disconnect_account(mailbox.account, keep_days=30)
    refused = Api(mailbox.firm, Role.OPERATOR).post(draft, operation)
    assert refused.status_code == 409
    assert "disconnected" in refused.json()["detail"]
    assert jobs("rework") + jobs("cleanup") == []


@pytest.mark.parametrize("edited", [False, True])
def test_one_is_discarded_unless_it_was_edited(
    mailbox: Mailbox, draft: Draft, edited: bool
) -> None:
    if edited:
        edit(mailbox, "My own words.")
    assert Api(mailbox.firm, Role.OPERATOR).post(draft, "discard").status_code == 200
    drain()
    assert len(listed(mailbox)) == int(edited)
    assert the_thread().status == ("drafted" if edited else "skipped")
