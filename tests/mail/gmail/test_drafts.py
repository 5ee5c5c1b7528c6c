"""drafts.*: a draft keeps its id while its message's id changes."""

from __future__ import annotations

import pytest
from googleapiclient.errors import HttpError

from tests.mail.gmail.mailbox_kit import ADDRESS, encoded, letter

pytestmark = pytest.mark.req("M-03")


@pytest.fixture
def drafts(users):
    return users.drafts()


def _body(subject: str = "Plan", **options) -> dict:
    return {"message": {"raw": encoded(letter(subject, **options))}}


def _missing(request) -> bool:
    with pytest.raises(HttpError) as refused:
        request.execute()
    return refused.value.status_code == 404


def test_update_keeps_the_draft_and_its_thread_and_makes_a_new_message(drafts, users):
    draft = drafts.create(userId="me", body=_body(text="one")).execute()
    start = users.getProfile(userId="me").execute()["historyId"]

    updated = drafts.update(userId="me", id=draft["id"], body=_body(text="two")).execute()

    changes = users.history().list(userId="me", startHistoryId=start).execute()["history"]
    assert updated["id"] == draft["id"]
    assert updated["message"]["id"] != draft["message"]["id"]
    assert updated["message"]["threadId"] == draft["message"]["threadId"]
    assert updated["message"]["labelIds"] == ["DRAFT"]
    assert [sorted(record.keys() - {"id", "messages"}) for record in changes] == [
        ["messagesAdded"],
        ["messagesDeleted"],
    ]
    assert _missing(users.messages().get(userId="me", id=draft["message"]["id"]))
    assert drafts.get(userId="me", id=draft["id"]).execute()["message"]["snippet"] == "two"


def test_sending_a_draft_makes_a_new_message_and_ends_the_draft(drafts, users):
    body = {"message": {"raw": encoded(letter("Menu", to="crew@sail.example"))}}
    draft = drafts.create(userId="me", body=body).execute()

    sent = drafts.send(userId="me", body={"id": draft["id"]}).execute()

    assert sent["labelIds"] == ["SENT"]
    assert sent["id"] != draft["message"]["id"]
    assert sent["threadId"] == draft["message"]["threadId"]
    assert _missing(drafts.get(userId="me", id=draft["id"]))
    assert drafts.list(userId="me").execute() == {"resultSizeEstimate": 0}


def test_a_deleted_draft_does_not_go_to_the_trash(drafts, users):
    draft = drafts.create(userId="me", body=_body()).execute()

    drafts.delete(userId="me", id=draft["id"]).execute()

    everything = users.messages().list(userId="me", includeSpamTrash=True).execute()
    assert "messages" not in everything
    assert _missing(drafts.delete(userId="me", id=draft["id"]))


def test_a_draft_message_deleted_as_a_message_ends_the_draft(drafts, users):
    draft = drafts.create(userId="me", body=_body()).execute()

    users.messages().delete(userId="me", id=draft["message"]["id"]).execute()

    assert _missing(drafts.get(userId="me", id=draft["id"]))


def test_drafts_are_searched_and_paged(drafts, simulator):
    simulator.import_message(ADDRESS, letter("Plan"))
    for number in range(3):
        drafts.create(userId="me", body=_body(f"Plan {number}")).execute()
    drafts.create(userId="me", body=_body("Menu")).execute()

    first = drafts.list(userId="me", q="subject:plan", maxResults=2).execute()
    rest = drafts.list(
        userId="me", q="subject:plan", maxResults=2, pageToken=first["nextPageToken"]
    ).execute()

    assert len({item["id"] for item in first["drafts"] + rest["drafts"]}) == 3


@pytest.mark.parametrize("wire_id", ["r1", "x", "r9999999999999999999"])
def test_an_unknown_draft_is_not_found(drafts, wire_id):
    assert _missing(drafts.get(userId="me", id=wire_id))
    assert _missing(drafts.send(userId="me", body={"id": wire_id}))
