"""labels.*: system labels, people's own, names that collide."""

from __future__ import annotations

import pytest
from googleapiclient.errors import HttpError

from tests.mail.gmail.mailbox_kit import ADDRESS, letter

pytestmark = pytest.mark.req("M-03")

SHOWN = {"labelListVisibility": "labelShow", "messageListVisibility": "show"}


@pytest.fixture
def labels(users):
    return users.labels()


def _create(labels, name: str):
    return labels.create(userId="me", body={"name": name, **SHOWN}).execute()


def _status(request) -> int:
    with pytest.raises(HttpError) as refused:
        request.execute()
    return refused.value.status_code


def test_a_new_mailbox_has_the_system_labels(labels):
    listed = labels.list(userId="me").execute()["labels"]

    assert {"INBOX", "SENT", "TRASH", "SPAM", "DRAFT", "UNREAD", "STARRED"} <= {
        label["id"] for label in listed
    }
    assert {label["type"] for label in listed} == {"system"}


def test_a_created_label_is_listed_and_keeps_its_look(labels):
    created = _create(labels, "Boats/Sold")

    assert created["type"] == "user"
    assert created["labelListVisibility"] == "labelShow"
    assert created in labels.list(userId="me").execute()["labels"]


@pytest.mark.parametrize(
    ("name", "status"),
    [("boats", 409), ("BOATS", 409), ("inbox", 400), ("  ", 400), ("/", 400), ("x" * 226, 400)],
)
def test_names_that_cannot_be_are_refused(labels, name, status):
    _create(labels, "Boats")

    assert _status(labels.create(userId="me", body={"name": name, **SHOWN})) == status


def test_patch_keeps_the_rest_and_update_replaces_it(labels):
    label = _create(labels, "Boats")["id"]

    patched = labels.patch(userId="me", id=label, body={"name": "Ships"}).execute()
    body = {"id": label, "name": "Ships", **SHOWN, "messageListVisibility": "hide"}
    updated = labels.update(userId="me", id=label, body=body).execute()

    assert patched == {"id": label, "name": "Ships", "type": "user", **SHOWN}
    assert updated["messageListVisibility"] == "hide"


def test_renaming_onto_another_label_conflicts_but_not_onto_itself(labels):
    _create(labels, "Boats")
    ships = _create(labels, "Ships")["id"]

    assert _status(labels.patch(userId="me", id=ships, body={"name": "boats"})) == 409
    assert labels.patch(userId="me", id=ships, body={"name": "SHIPS"}).execute()["name"] == "SHIPS"


@pytest.mark.parametrize("label", ["INBOX", "SENT"])
def test_system_labels_can_be_neither_changed_nor_deleted(labels, label):
    assert _status(labels.patch(userId="me", id=label, body={"name": "Mine"})) == 400
    assert _status(labels.delete(userId="me", id=label)) == 400


def test_an_unknown_label_is_not_found(labels):
    assert _status(labels.get(userId="me", id="Label_7")) == 404
    assert _status(labels.delete(userId="me", id="Label_7")) == 404


def test_a_deleted_label_leaves_its_messages_and_its_id_is_not_given_again(
    labels, users, simulator
):
    label = _create(labels, "Boats")["id"]
    stored = simulator.import_message(ADDRESS, letter(), labels=["INBOX", label])
    start = users.getProfile(userId="me").execute()["historyId"]

    labels.delete(userId="me", id=label).execute()

    got = users.messages().get(userId="me", id=stored.gmail_message_id).execute()
    changes = users.history().list(userId="me", startHistoryId=start).execute()["history"]
    assert got["labelIds"] == ["INBOX"]
    assert changes[0]["labelsRemoved"][0]["labelIds"] == [label]
    assert _create(labels, "Boats")["id"] != label


def test_a_label_counts_its_messages_and_threads(labels, simulator):
    label = _create(labels, "Boats")["id"]
    for text, extra in [("a", ["UNREAD"]), ("b", [])]:
        raw = letter("Same", text, message_id=text, reply_to="root@sail.example")
        simulator.import_message(ADDRESS, raw, labels=[label, *extra])

    counted = labels.get(userId="me", id=label).execute()

    assert (counted["messagesTotal"], counted["messagesUnread"]) == (2, 1)
    assert (counted["threadsTotal"], counted["threadsUnread"]) == (1, 1)
