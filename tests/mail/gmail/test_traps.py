"""Properties of Gmail that surprise clients: ids that change, uploads, parts, quota."""

from __future__ import annotations

import io
import json
from urllib.parse import urlsplit

import httplib2
import pytest
from googleapiclient.errors import HttpError
from googleapiclient.http import MediaIoBaseUpload

from mail.gmail import errors
from mail.gmail.client import GmailClient
from mail.gmail.simulator import messages
from mail.gmail.simulator.quota import Quota, units_of
from mail.gmail.simulator.transport import SimulatorHttp
from tests.mail.gmail.mailbox_kit import ADDRESS, encoded, letter
from tests.mail.google_kit import serving

pytestmark = pytest.mark.req("M-03")


def attachment_of(gmail: GmailClient, wire_id: str) -> str:
    message = gmail.get_message(wire_id)
    (part,) = [one for one in message["payload"]["parts"] if one["filename"]]
    return part["body"]["attachmentId"]


def test_attachment_ids_change_at_each_reading_and_are_good_for_a_time(
    gmail, simulator, monkeypatch
):
    raw = letter("Plan", attachment=("plan.pdf", b"%PDF"))
    wire_id = simulator.import_message(ADDRESS, raw).gmail_message_id
    first, second = attachment_of(gmail, wire_id), attachment_of(gmail, wire_id)
    assert first != second
    assert gmail.get_attachment(wire_id, first) == gmail.get_attachment(wire_id, second) == b"%PDF"

    monkeypatch.setattr(messages, "ATTACHMENT_SECONDS", -1)
    with pytest.raises(errors.GmailBadRequest):
        gmail.get_attachment(wire_id, first)
    monkeypatch.undo()
    with pytest.raises(errors.GmailNotFound):
        gmail.get_attachment(wire_id, "made-up")


def media(raw: bytes) -> MediaIoBaseUpload:
    return MediaIoBaseUpload(io.BytesIO(raw), mimetype="message/rfc822")


@pytest.mark.parametrize("body", [None, {}, {"labelIds": ["INBOX", "STARRED"]}])
def test_an_upload_is_the_message_as_it_is(users, gmail, body):
    # Google's own client cannot send 8-bit mail together with metadata.
    text = "Žluťoučký kůň" if body is None else "Yellow horse"
    raw = letter("Uploaded", f"{text}\n\nlast line")
    made = users.messages().import_(userId="me", body=body, media_body=media(raw)).execute()
    found = gmail.get_message(made["id"], fmt="raw")
    assert found["raw"].rstrip("=") == encoded(raw).rstrip("=")
    assert set(found.get("labelIds", [])) == set((body or {}).get("labelIds", []))


def test_drafts_and_sent_mail_are_uploaded_too(users, gmail):
    sent = users.messages().send(userId="me", media_body=media(letter("Sent"))).execute()
    assert "SENT" in gmail.get_message(sent["id"])["labelIds"]
    draft = users.drafts().create(userId="me", body={}, media_body=media(letter("Draft"))).execute()
    assert "DRAFT" in gmail.get_message(draft["message"]["id"])["labelIds"]


@pytest.mark.parametrize("in_thread", [True, False])
def test_our_drafts_are_uploaded_byte_for_byte(http, gmail, monkeypatch, in_thread):
    first = gmail.create_draft(letter("Plan", message_id="plan@sail.example"))
    text = "Žluťoučký kůň\n\nFrom here on\n\n"
    raw = letter("Re: Plan", text, reply_to="plan@sail.example" if in_thread else "")
    asked = []
    request = http.request

    def noted(uri, *arguments, **rest):
        asked.append(urlsplit(uri).path)
        return request(uri, *arguments, **rest)

    monkeypatch.setattr(http, "request", noted)
    thread = first["message"]["threadId"] if in_thread else ""
    made = gmail.create_draft(raw, thread)["message"]
    # Gmail refuses a JSON body of some MB, but accepts an upload of 35 MB.
    assert asked == ["/upload/gmail/v1/users/me/drafts"]
    assert gmail.get_message(made["id"], fmt="raw")["raw"].rstrip("=") == encoded(raw).rstrip("=")
    assert (made["threadId"] == first["message"]["threadId"]) == in_thread


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/upload/gmail/v1/users/me/labels?uploadType=media", 404),
        ("/upload/gmail/v1/users/me/messages/send?uploadType=resumable", 501),
        ("/upload/gmail/v1/users/me/messages/send", 400),
        ("/upload/gmail/v1/users/me/messages/send?uploadType=multipart", 400),
    ],
)
def test_uploads_that_are_none_are_refused(http, path, status):
    response, _ = http.request(path, "POST", body=b"x")
    assert response.status == status


def test_a_partial_answer_has_what_was_asked_for(users, simulator):
    for number in range(3):
        simulator.import_message(ADDRESS, letter(f"Letter {number}"))
    listing = users.messages().list(userId="me", maxResults=2, fields="messages/id,nextPageToken")
    answer = listing.execute()
    assert answer.keys() == {"messages", "nextPageToken"}
    assert [one.keys() for one in answer["messages"]] == [{"id"}, {"id"}]
    one = users.messages().get(
        userId="me", id=answer["messages"][0]["id"], fields="id,payload(headers(name),mimeType)"
    )
    answer = one.execute()
    assert answer.keys() == {"id", "payload"}
    assert answer["payload"].keys() == {"headers", "mimeType"}
    assert all(header.keys() == {"name"} for header in answer["payload"]["headers"])
    everything = users.getProfile(userId="me", fields="*").execute()
    assert everything == users.getProfile(userId="me").execute()


@pytest.mark.parametrize("fields", ["(", "a(", "a(b", "a)", "a,,b", "a/", "a b", "a" + "(a" * 40])
def test_a_selection_that_cannot_be_read_is_refused(users, fields):
    with pytest.raises(HttpError) as refused:
        users.getProfile(userId="me", fields=fields).execute()
    assert refused.value.status_code == 400


@pytest.mark.parametrize("header", ["To", "Cc"])
def test_mail_to_oneself_is_one_message_sent_and_received(users, gmail, simulator, header):
    simulator.add_alias(ADDRESS, "captain@harbour.example")
    for own in (ADDRESS.upper(), "captain@harbour.example"):
        raw = f"{header}: Me <{own}>\r\nSubject: Note {own}\r\n\r\nbuy rope".encode()
        sent = users.messages().send(userId="me", body={"raw": encoded(raw)}).execute()
        labels = gmail.get_message(sent["id"])["labelIds"]
        assert {"SENT", "INBOX", "UNREAD"} <= set(labels)
    raw = b"To: crew@sail.example\r\nSubject: Hi\r\n\r\nHello"
    sent = users.messages().send(userId="me", body={"raw": encoded(raw)}).execute()
    assert gmail.get_message(sent["id"])["labelIds"] == ["SENT"]


def of(simulator, address: str) -> GmailClient:
    return GmailClient(lambda: SimulatorHttp(simulator, address))


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "rateLimitExceeded"), (403, "userRateLimitExceeded")]
)
def test_a_user_who_has_no_units_left_is_refused_and_no_other(simulator, status, reason):
    ada, bob = of(simulator, ADDRESS), of(simulator, "bob@sail.example")
    simulator.order_quota(Quota(user_units=12, seconds=10**9, status=status))
    ada.list_messages("")
    ada.list_messages("")
    with pytest.raises(errors.GmailRateLimited) as refused:
        ada.list_messages("")
    assert (refused.value.status, refused.value.reason) == (status, reason)
    assert refused.value.retry_after is not None
    assert ada.history("1000")["historyId"]
    assert bob.list_labels()
    simulator.order_quota(None)
    ada.list_messages("")


def test_the_projects_units_are_everybodys(simulator):
    ada, bob = of(simulator, ADDRESS), of(simulator, "bob@sail.example")
    simulator.order_quota(Quota(project_units=5, seconds=10**9, status=403))
    ada.list_messages("")
    with pytest.raises(errors.GmailRateLimited) as refused:
        bob.list_labels()
    assert refused.value.reason == "rateLimitExceeded"


def test_units_come_back_with_time(simulator):
    ada = of(simulator, ADDRESS)
    simulator.order_quota(Quota(user_units=5, seconds=0.001))
    for _ in range(20):
        for _ in range(1000):
            try:
                ada.list_messages("")
            except errors.GmailRateLimited:
                continue
            break
        else:
            pytest.fail("no unit came back")


def test_units_are_those_of_gmails_page():
    assert [units_of(one) for one in ("messages.get", "messages.send", "watch", "history.list")] == [
        5, 100, 100, 2,
    ]  # fmt: skip


def test_a_message_is_uploaded_over_http(simulator, gmail):
    token = simulator.access_token(ADDRESS)
    with serving(simulator) as server:
        response, content = httplib2.Http(timeout=10).request(
            f"{server.url}/upload/gmail/v1/users/me/messages?uploadType=media",
            "POST",
            body=letter("Over HTTP"),
            headers={"authorization": f"Bearer {token}", "content-type": "message/rfc822"},
        )
    assert response.status == 200
    assert gmail.get_message(json.loads(content)["id"])["payload"]["headers"]
