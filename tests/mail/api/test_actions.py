"""Actions over REST: listed, shown, undone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.testing import drain
from mail.models import MailAccount, Message
from mail.services.mailboxes.connect_account import disconnect_account
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.jobs.admin.pages import audit_entries
from tests.mail.action_kit import ARRIVED, ask, current, done, received, undone
from tests.mail.mail_kit import Mailbox, jobs
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-16")]

ROOT = "/api/v1/mail/actions/"


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, firm: Firm, role: Role) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(firm, role)}"}

    def get(self, path: str = "", **query: Any) -> Any:
        return Client().get(ROOT + path, query, headers=self.headers)

    def undo(self, action_id: object, **body: object) -> Any:
        return Client().post(
            f"{ROOT}{action_id}/undo/", body, content_type="application/json", headers=self.headers
        )


def test_actions_are_listed_and_filtered(mailbox: Mailbox) -> None:
    first, second = received(mailbox), received(mailbox)
    archived = done(mailbox, first, "archive")
    waiting = ask(mailbox, second, "apply_label", label="Projects")
    api = Api(mailbox.firm, Role.VIEWER)
    rows = api.get().json()["results"]
    assert [row["id"] for row in rows] == [str(waiting.pk), str(archived.pk)]
    assert (rows[0]["status"], rows[0]["undoable"]) == ("queued", False)
    assert rows[0]["parameters"] == {"label": "Projects"}
    assert (rows[1]["status"], rows[1]["undoable"], rows[1]["undo_id"]) == ("completed", True, None)
    assert rows[1] == api.get(f"{archived.pk}/").json()
    for query in ({"status": "completed"}, {"action_type": "archive"},
                  {"message_id": str(archived.message_id)}):  # fmt: skip
        assert [row["id"] for row in api.get(**query).json()["results"]] == [str(archived.pk)]
    assert api.get(account_id=str(uuid4())).json()["results"] == []
    assert api.get(status="lost").status_code == 400


def test_a_list_of_many_asks_the_database_as_often_as_one_of_few(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm, Role.VIEWER)

    def queries() -> int:
        api.get()
        with CaptureQueriesContext(connection) as captured:
            assert api.get().status_code == 200
        return len(captured)

    done(mailbox, received(mailbox), "snooze", amount=1, units="hours")
    few = queries()
    for _ in range(3):
        done(mailbox, received(mailbox), "snooze", amount=1, units="hours")
    assert queries() == few


def test_of_a_message_that_was_snoozed_again_the_last_snooze_is_undoable(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    _, second = (done(mailbox, arrived, "snooze", amount=hours, units="hours") for hours in (1, 3))
    again = "The message was snoozed again; undo the newer snooze first."
    api = Api(mailbox.firm, Role.VIEWER)
    last, first = api.get().json()["results"]
    assert [(row["undoable"], row["why_not_undoable"]) for row in (last, first)] == [
        (True, None),
        (False, again),
    ]
    undone(mailbox, second)
    assert api.get(f"{first['id']}/").json()["undoable"]


def test_an_undo_is_accepted_once(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = done(mailbox, arrived, "archive")
    api = Api(mailbox.firm, Role.OPERATOR)
    first, second = api.undo(action.pk, reason="needed"), api.undo(action.pk)
    assert first.status_code == 202
    assert (first.json()["action_type"], first.json()["status"]) == ("undo", "queued")
    assert (second.status_code, second.json()["code"]) == (409, "wrong_state")
    assert "being undone" in second.json()["detail"]
    drain()
    assert mailbox.labels(arrived) == set(ARRIVED)
    assert api.get(f"{action.pk}/").json()["undo_id"] == first.json()["id"]
    assert api.get(f"{first.json()['id']}/").json()["status"] == "completed"
    assert api.undo(action.pk).status_code == 409
    (entry,) = audit_entries(action.pk)
    assert (entry.act, entry.reason, entry.door) == ("action.undo", "needed", "api")


@postgresql_only
def test_who_undoes_what_is_deleted_at_the_same_moment_is_told(mailbox: Mailbox) -> None:
    action, api = done(mailbox, received(mailbox), "archive"), Api(mailbox.firm, Role.OPERATOR)

    def undo() -> Any:
        try:
            return api.undo(action.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with firm_scope(mailbox.firm):
            Message.objects.filter(pk=action.message_id).delete()
            asked = pool.submit(undo)
            wait_until(is_waited_for, "the undo waits")
        answer = asked.result()
    assert (answer.status_code, answer.json()["detail"]) == (
        409, "The action is gone, with its message.",
    )  # fmt: skip


def test_the_undo_of_what_changed_nothing_is_done_at_once(mailbox: Mailbox) -> None:
    arrived = received(mailbox, "UNREAD")
    action = done(mailbox, arrived, "archive")
    answer = Api(mailbox.firm, Role.OPERATOR).undo(action.pk)
    assert (answer.status_code, answer.json()["status"]) == (200, "completed")
    assert jobs("undo.action") == []
    assert mailbox.labels(arrived) == {"UNREAD"}


def test_what_cannot_be_undone_is_said_before_and_refused_after(mailbox: Mailbox) -> None:
    arrived = received(mailbox)
    action = ask(mailbox, arrived, "delete", permanently=True)
    api = Api(mailbox.firm, Role.OPERATOR)
    before = api.get(f"{action.pk}/").json()
    assert "deleted for good" in before["why_not_undoable"]
    drain()
    assert current(action).status == "completed"
    answer = api.undo(action.pk)
    assert (answer.status_code, "deleted for good" in answer.json()["detail"]) == (409, True)


def test_nothing_is_undone_in_a_disconnected_mailbox(mailbox: Mailbox) -> None:
    """The undo's job could only end canceled."""
    action = done(mailbox, received(mailbox), "archive")
    disconnect_account(mailbox.account, keep_days=30)
    api = Api(mailbox.firm, Role.OPERATOR)
    refused = api.undo(action.pk)
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
    assert "disconnected" in refused.json()["detail"]
    row = api.get(f"{action.pk}/").json()
    assert (row["undoable"], row["undo_id"]) == (False, None)
    assert "disconnected" in row["why_not_undoable"]
    timeline = Client().get(
        f"/api/v1/mail/messages/{action.message_id}/timeline/", headers=api.headers
    )
    found = [one["undoable"] for one in timeline.json()["results"] if one["kind"] == "action"]
    assert found == [False]


def test_a_viewer_undoes_nothing(mailbox: Mailbox) -> None:
    action = done(mailbox, received(mailbox), "archive")
    assert Api(mailbox.firm, Role.VIEWER).undo(action.pk).status_code == 403
    assert jobs("undo.action") == []


@pytest.mark.req("M-23")
def test_parameters_are_for_readers_of_the_mailbox(mailbox: Mailbox) -> None:
    action = done(mailbox, received(mailbox), "apply_label", label="Secret project")
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)
    answer = Api(mailbox.firm, Role.ADMIN).get(f"{action.pk}/")
    assert answer.json()["parameters"] is None
    assert b"Secret project" not in answer.content


@pytest.mark.req("T-03")
def test_another_firm_finds_nothing(mailbox: Mailbox, other_firm: Firm) -> None:
    action = done(mailbox, received(mailbox), "archive")
    api = Api(other_firm, Role.ADMIN)
    assert api.get().json()["results"] == []
    assert api.get(f"{action.pk}/").status_code == 404
    assert api.undo(action.pk).status_code == 404
    assert Api(mailbox.firm, Role.OPERATOR).undo(uuid4()).status_code == 404


def test_a_wrong_body_is_named(mailbox: Mailbox) -> None:
    action = done(mailbox, received(mailbox), "archive")
    answer = Api(mailbox.firm, Role.OPERATOR).undo(action.pk, colour="red")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "colour")
