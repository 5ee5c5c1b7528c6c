"""messages.*: reading, labelling, trash, deletion, attachments."""

from __future__ import annotations

import base64

import pytest
from googleapiclient.errors import HttpError

from tests.mail.gmail.mailbox_kit import ADDRESS, encoded, letter

pytestmark = pytest.mark.req("M-03")


@pytest.fixture
def messages(users):
    return users.messages()


@pytest.fixture
def stored(simulator) -> str:
    return simulator.import_message(ADDRESS, letter()).gmail_message_id


def _refusal(request) -> tuple[int, str]:
    with pytest.raises(HttpError) as refused:
        request.execute()
    return refused.value.status_code, refused.value.reason


def test_an_empty_listing_has_no_messages_key(messages):
    answer = messages.list(userId="me").execute()

    assert answer == {"resultSizeEstimate": 0}


def test_newest_comes_first_and_pages_stay_steady_while_mail_arrives(messages, simulator):
    days = [3, 1, 5, 2, 4]
    for day in days:
        raw = letter(f"day {day}", date=f"{day} Mar 2025 10:00:00 +0000")
        simulator.import_message(ADDRESS, raw)

    first = messages.list(userId="me", maxResults=2).execute()
    simulator.import_message(ADDRESS, letter("new", date="9 Mar 2025 10:00:00 +0000"))
    second = messages.list(userId="me", maxResults=2, pageToken=first["nextPageToken"]).execute()
    third = messages.list(userId="me", maxResults=2, pageToken=second["nextPageToken"]).execute()

    listed = [item["id"] for page in (first, second, third) for item in page["messages"]]
    subjects = [_subject(messages, wire_id) for wire_id in listed]
    assert subjects == ["day 5", "day 4", "day 3", "day 2", "day 1"]
    assert "nextPageToken" not in third


def _subject(messages, wire_id: str) -> str:
    got = messages.get(
        userId="me", id=wire_id, format="metadata", metadataHeaders=["subject"]
    ).execute()
    (header,) = got["payload"]["headers"]
    return header["value"]


def test_formats_show_what_they_promise(messages, simulator):
    raw = letter()
    wire_id = simulator.import_message(ADDRESS, raw).gmail_message_id

    minimal = messages.get(userId="me", id=wire_id, format="minimal").execute()
    metadata = messages.get(userId="me", id=wire_id, format="metadata").execute()
    full = messages.get(userId="me", id=wire_id).execute()
    as_raw = messages.get(userId="me", id=wire_id, format="raw").execute()

    assert {"payload", "raw"}.isdisjoint(minimal)
    assert "body" not in metadata["payload"]
    assert [header["name"] for header in metadata["payload"]["headers"]][:2] == ["From", "To"]
    text = base64.urlsafe_b64decode(full["payload"]["body"]["data"])
    assert text == b"See you at the quay.\n"
    assert base64.urlsafe_b64decode(as_raw["raw"]) == raw
    assert full["sizeEstimate"] == len(raw)
    assert full["internalDate"] == "1740996000000"
    assert full["labelIds"] == ["INBOX", "UNREAD"]


def test_an_attachment_is_fetched_by_its_id(messages, simulator):
    content = bytes(range(256)) * 40
    raw = letter(attachment=("fees.pdf", content))
    wire_id = simulator.import_message(ADDRESS, raw).gmail_message_id

    full = messages.get(userId="me", id=wire_id).execute()
    part = full["payload"]["parts"][1]
    got = (
        messages.attachments()
        .get(userId="me", messageId=wire_id, id=part["body"]["attachmentId"])
        .execute()
    )

    assert (part["filename"], part["body"]["size"]) == ("fees.pdf", len(content))
    assert "data" not in part["body"]
    assert base64.urlsafe_b64decode(got["data"]) == content


@pytest.mark.parametrize("attachment_id", ["nonsense", "ANGjdJ_9", "ANGjdJ_"])
def test_an_unknown_attachment_is_not_found(messages, simulator, attachment_id):
    raw = letter(attachment=("fees.pdf", b"x"))
    wire_id = simulator.import_message(ADDRESS, raw).gmail_message_id
    request = messages.attachments().get(userId="me", messageId=wire_id, id=attachment_id)

    assert _refusal(request)[0] == 404


def test_modify_answers_with_the_new_labels_and_repeats_change_nothing(messages, stored, users):
    change = {"addLabelIds": ["STARRED"], "removeLabelIds": ["INBOX"]}

    first = messages.modify(userId="me", id=stored, body=change).execute()
    before = users.getProfile(userId="me").execute()["historyId"]
    again = messages.modify(userId="me", id=stored, body=change).execute()

    assert first["labelIds"] == again["labelIds"] == ["STARRED", "UNREAD"]
    assert users.getProfile(userId="me").execute()["historyId"] == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "No label add or removes specified"),
        ({"addLabelIds": ["SENT"]}, "Invalid label: SENT"),
        ({"removeLabelIds": ["DRAFT"]}, "Invalid label: DRAFT"),
        ({"addLabelIds": ["Label_99"]}, "Invalid label: Label_99"),
        ({"addLabelIds": ["STARRED"], "removeLabelIds": ["STARRED"]}, "both add and remove"),
        ({"addLabelIds": ["STARRED"] * 101}, "Too many label ids"),
    ],
)
def test_impossible_label_changes_are_refused(messages, stored, change, said):
    status, reason = _refusal(messages.modify(userId="me", id=stored, body=change))

    assert status == 400
    assert said in reason


@pytest.mark.parametrize("wire_id", ["0" * 16, "190000009e3779b2", "x", "1900ffffffffffff"])
def test_an_unknown_message_is_not_found(messages, stored, wire_id):
    change = {"addLabelIds": ["STARRED"]}

    assert _refusal(messages.get(userId="me", id=wire_id))[0] == 404
    assert _refusal(messages.modify(userId="me", id=wire_id, body=change))[0] == 404


def test_another_mailbox_does_not_see_the_message(simulator, messages):
    other = simulator.import_message("bob@sail.example", letter()).gmail_message_id

    assert _refusal(messages.get(userId="me", id=other))[0] == 404
    assert messages.list(userId="me").execute() == {"resultSizeEstimate": 0}


def test_batch_modify_passes_over_unknown_ids(messages, simulator):
    ids = [
        simulator.import_message(ADDRESS, letter(f"no {number}")).gmail_message_id
        for number in range(3)
    ]
    body = {"ids": [*ids[:2], "0" * 16], "addLabelIds": ["STARRED"]}

    messages.batchModify(userId="me", body=body).execute()

    starred = messages.list(userId="me", labelIds=["STARRED"]).execute()["messages"]
    assert {item["id"] for item in starred} == set(ids[:2])


@pytest.mark.parametrize("ids", [[], ["0" * 16] * 1001])
def test_batch_modify_bounds_its_ids(messages, ids):
    body = {"ids": ids, "addLabelIds": ["STARRED"]}

    assert _refusal(messages.batchModify(userId="me", body=body))[0] == 400


def test_a_draft_message_keeps_its_one_label(messages, users, stored):
    body = {"message": {"raw": encoded(letter("Draft"))}}
    draft = users.drafts().create(userId="me", body=body).execute()["message"]["id"]
    change = {"addLabelIds": ["STARRED"]}

    assert _refusal(messages.modify(userId="me", id=draft, body=change))[0] == 400
    batch = messages.batchModify(userId="me", body={"ids": [stored, draft], **change})
    assert _refusal(batch)[0] == 400
    assert "STARRED" not in messages.get(userId="me", id=stored).execute()["labelIds"]


def test_trash_hides_and_untrash_does_not_bring_back_the_inbox(messages, stored):
    trashed = messages.trash(userId="me", id=stored).execute()
    hidden = messages.list(userId="me").execute()
    asked = messages.list(userId="me", includeSpamTrash=True).execute()
    untrashed = messages.untrash(userId="me", id=stored).execute()

    assert trashed["labelIds"] == ["TRASH", "UNREAD"]
    assert "messages" not in hidden
    assert asked["messages"][0]["id"] == stored
    assert untrashed["labelIds"] == ["UNREAD"]


def test_a_deleted_message_is_gone_for_good_and_its_id_never_returns(messages, stored, simulator):
    messages.delete(userId="me", id=stored).execute()
    again = simulator.import_message(ADDRESS, letter())

    assert _refusal(messages.get(userId="me", id=stored))[0] == 404
    assert again.created
    assert again.gmail_message_id != stored


def test_sending_completes_the_headers_and_keeps_those_given(messages):
    raw = b"To: bob@sail.example\r\nMessage-ID: <mine@harbour.example>\r\n\r\nAhoy"

    sent = messages.send(userId="me", body={"raw": encoded(raw)}).execute()

    got = messages.get(userId="me", id=sent["id"]).execute()
    headers = {item["name"]: item["value"] for item in got["payload"]["headers"]}
    assert sent["labelIds"] == ["SENT"]
    assert headers["Message-ID"] == "<mine@harbour.example>"
    assert headers["From"] == ADDRESS
    assert headers["Date"]


def test_sending_to_nobody_is_refused(messages):
    request = messages.send(userId="me", body={"raw": encoded(b"Subject: x\r\n\r\ny")})

    assert _refusal(request) == (400, "Recipient address required")


@pytest.mark.parametrize(
    ("method", "source", "expected_old"),
    [
        ("import_", None, True),
        ("insert", None, False),
        ("import_", "receivedTime", False),
        ("insert", "dateHeader", True),
    ],
)
def test_the_internal_date_comes_from_where_it_is_asked(messages, method, source, expected_old):
    options = {"internalDateSource": source} if source else {}
    body = {"raw": encoded(letter()), "labelIds": ["INBOX"]}

    added = getattr(messages, method)(userId="me", body=body, **options).execute()

    got = messages.get(userId="me", id=added["id"], format="minimal").execute()
    assert (got["internalDate"] == "1740996000000") is expected_old
