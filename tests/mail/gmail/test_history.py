"""history.list: what changed, page by page, until it is too long ago."""

from __future__ import annotations

from itertools import pairwise

import pytest
from googleapiclient.errors import HttpError

from tests.mail.gmail.mailbox_kit import ADDRESS, letter

pytestmark = pytest.mark.req("M-03", "M-04")


@pytest.fixture
def history(users):
    def list_changes(start: str, **options):
        return users.history().list(userId="me", startHistoryId=start, **options).execute()

    return list_changes


def _cursor(users) -> str:
    return users.getProfile(userId="me").execute()["historyId"]


def _import(simulator, subject: str = "x", **options) -> str:
    return simulator.import_message(ADDRESS, letter(subject), **options).gmail_message_id


def test_nothing_new_has_no_history_key(users, history):
    cursor = _cursor(users)

    assert history(cursor) == {"historyId": cursor}


def test_each_change_is_recorded_once_with_growing_gappy_ids(users, simulator, history):
    start = _cursor(users)
    wire_id = _import(simulator)
    users.messages().modify(
        userId="me", id=wire_id, body={"addLabelIds": ["STARRED"], "removeLabelIds": ["UNREAD"]}
    ).execute()
    users.messages().delete(userId="me", id=wire_id).execute()

    answer = history(start)
    added, labelled, deleted = answer["history"]

    assert added["messagesAdded"][0]["message"] == {
        "id": wire_id,
        "threadId": wire_id,
        "labelIds": ["INBOX", "UNREAD"],
    }
    assert labelled["labelsAdded"][0]["labelIds"] == ["STARRED"]
    assert labelled["labelsRemoved"][0]["labelIds"] == ["UNREAD"]
    assert deleted["messagesDeleted"][0]["message"]["threadId"] == wire_id
    ids = [int(record["id"]) for record in answer["history"]]
    assert all(later - earlier > 1 for earlier, later in pairwise(ids))
    assert answer["historyId"] == str(ids[-1]) == _cursor(users)


def test_pages_cover_everything_with_the_same_start(users, simulator, history):
    start = _cursor(users)
    wanted = [_import(simulator, f"no {number}") for number in range(7)]

    seen, token, pages = [], None, 0
    while pages == 0 or token:
        page = history(start, maxResults=3, pageToken=token)
        seen += [record["messages"][0]["id"] for record in page["history"]]
        token, pages = page.get("nextPageToken"), pages + 1

    assert seen == wanted
    assert pages == 3


def test_types_and_label_narrow_the_records(users, simulator, history):
    start = _cursor(users)
    inbox = _import(simulator, "in")
    archived = _import(simulator, "out", labels=[])
    users.messages().modify(userId="me", id=inbox, body={"removeLabelIds": ["INBOX"]}).execute()

    def ids(**options) -> list[str]:
        return [r["messages"][0]["id"] for r in history(start, **options).get("history", [])]

    assert ids(historyTypes=["messageAdded"]) == [inbox, archived]
    assert ids(historyTypes=["labelRemoved", "messageDeleted"]) == [inbox]
    assert ids(labelId="INBOX") == [inbox, inbox]
    assert ids(labelId="SPAM") == []


@pytest.mark.parametrize("start", ["1", "99999999"])
def test_an_id_out_of_range_is_not_found(history, simulator, start):
    _import(simulator)

    with pytest.raises(HttpError) as refused:
        history(start)
    assert refused.value.status_code == 404


def test_expired_history_refuses_old_cursors_and_goes_on_from_the_new(users, simulator, history):
    _import(simulator, "before")
    old = _cursor(users)
    simulator.expire_history(ADDRESS)

    with pytest.raises(HttpError) as refused:
        history(old)
    new = _cursor(users)
    wire_id = _import(simulator, "after")

    assert refused.value.status_code == 404
    assert [r["messages"][0]["id"] for r in history(new)["history"]] == [wire_id]


def test_a_watch_is_stored_until_stopped(users):
    cursor = _cursor(users)
    body = {
        "topicName": "projects/p/topics/t",
        "labelIds": ["INBOX"],
        "labelFilterBehavior": "INCLUDE",
    }

    answer = users.watch(userId="me", body=body).execute()

    assert answer["historyId"] == cursor
    assert int(answer["expiration"]) > 1_700_000_000_000
    assert users.stop(userId="me").execute() == ""


@pytest.mark.parametrize("body", [{}, {"topicName": "t", "labelIds": ["Label_9"]}])
def test_a_watch_on_nothing_is_refused(users, body):
    with pytest.raises(HttpError) as refused:
        users.watch(userId="me", body=body).execute()
    assert refused.value.status_code == 400
