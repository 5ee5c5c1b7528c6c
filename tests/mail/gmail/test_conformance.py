"""The simulator agrees with the discovery document: answers, requests, refusals."""

from __future__ import annotations

import json

import pytest
from googleapiclient.errors import HttpError

from mail.gmail.simulator.api import _READERS, _WRITERS
from tests.mail.gmail.mailbox_kit import encoded, letter

pytestmark = pytest.mark.req("M-03")

ROOT = "https://gmail.googleapis.com/gmail/v1/users/me"


ME = {"userId": "me"}


def _call_labels(labels) -> None:
    shown = {"labelListVisibility": "labelShow", "messageListVisibility": "show"}
    label = labels.create(body={"name": "Boats", **shown}, **ME).execute()["id"]
    labels.get(id=label, **ME).execute()
    labels.patch(id=label, body={"name": "Ships"}, **ME).execute()
    labels.update(id=label, body={"id": label, "name": "Fleet", **shown}, **ME).execute()
    labels.list(**ME).execute()
    labels.delete(id=label, **ME).execute()


def _call_messages(messages, raw: str) -> None:
    inserted = messages.insert(body={"raw": raw, "labelIds": ["INBOX"]}, **ME).execute()["id"]
    imported = messages.import_(body={"raw": raw, "labelIds": ["UNREAD"]}, **ME).execute()["id"]
    sent = messages.send(body={"raw": raw}, **ME).execute()["id"]
    messages.list(maxResults=1, **ME).execute()
    for message_format in ("full", "metadata", "minimal", "raw"):
        messages.get(id=inserted, format=message_format, **ME).execute()
    full = messages.get(id=inserted, **ME).execute()
    attachment = full["payload"]["parts"][1]["body"]["attachmentId"]
    messages.attachments().get(messageId=inserted, id=attachment, **ME).execute()
    messages.modify(id=inserted, body={"addLabelIds": ["STARRED"]}, **ME).execute()
    messages.batchModify(body={"ids": [inserted], "addLabelIds": ["SPAM"]}, **ME).execute()
    messages.trash(id=inserted, **ME).execute()
    messages.untrash(id=inserted, **ME).execute()
    messages.delete(id=imported, **ME).execute()
    messages.batchDelete(body={"ids": [sent]}, **ME).execute()


def _call_threads(threads, thread: str) -> None:
    threads.list(**ME).execute()
    threads.get(id=thread, **ME).execute()
    threads.modify(id=thread, body={"removeLabelIds": ["STARRED"]}, **ME).execute()
    threads.trash(id=thread, **ME).execute()
    threads.untrash(id=thread, **ME).execute()
    threads.delete(id=thread, **ME).execute()


def _call_drafts(drafts, raw: str) -> None:
    draft = drafts.create(body={"message": {"raw": raw}}, **ME).execute()["id"]
    drafts.get(id=draft, **ME).execute()
    drafts.list(**ME).execute()
    drafts.update(id=draft, body={"message": {"raw": raw}}, **ME).execute()
    drafts.send(body={"id": draft}, **ME).execute()
    draft = drafts.create(body={"message": {"raw": raw}}, **ME).execute()["id"]
    drafts.delete(id=draft, **ME).execute()


def test_every_answer_fits_its_schema(users, http):
    raw = encoded(letter(attachment=("fees.pdf", b"%PDF-1.4")))
    thread = users.messages().send(body={"raw": raw}, **ME).execute()["threadId"]

    _call_labels(users.labels())
    _call_messages(users.messages(), raw)
    _call_threads(users.threads(), thread)
    _call_drafts(users.drafts(), raw)
    users.getProfile(**ME).execute()
    users.history().list(startHistoryId="1000", **ME).execute()
    users.watch(body={"topicName": "projects/p/topics/t"}, **ME).execute()
    users.stop(**ME).execute()
    send_as = users.settings().sendAs()
    primary = send_as.list(**ME).execute()["sendAs"][0]["sendAsEmail"]
    send_as.get(sendAsEmail=primary, **ME).execute()

    assert http.methods == set(_READERS) | set(_WRITERS)


@pytest.mark.parametrize(
    ("path", "verb", "body", "named"),
    [
        ("/messages?colour=red", "GET", None, "colour"),
        ("/messages?maxResults=many", "GET", None, "maxResults"),
        ("/messages?maxResults=1&maxResults=2", "GET", None, "maxResults"),
        ("/messages?includeSpamTrash=perhaps", "GET", None, "includeSpamTrash"),
        ("/messages/1?format=pretty", "GET", None, "format"),
        ("/messages?pageToken=nonsense", "GET", None, "pageToken"),
        ("/history", "GET", None, "startHistoryId"),
        ("/history?startHistoryId=soon", "GET", None, "startHistoryId"),
        ("/messages/1/modify", "POST", {"sparkle": True}, "sparkle"),
        ("/labels", "POST", {"labelListVisibility": "labelShow"}, "required"),
        ("/messages/1/modify", "POST", {"addLabelIds": "INBOX"}, "addLabelIds"),
        ("/messages/1/modify", "POST", [1], "object"),
        ("/messages/send", "POST", {}, "raw"),
        ("/messages/send", "POST", {"raw": "not base64!"}, "raw"),
        ("/messages/import", "POST", {"raw": ""}, "raw"),
        ("/messages/1/trash", "POST", {"surprise": 1}, "body"),
    ],
)
def test_requests_that_break_the_document_are_refused(http, path, verb, body, named):
    response, content = http.request(ROOT + path, verb, body and json.dumps(body))

    error = json.loads(content)["error"]
    assert (response.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["errors"][0]["reason"] == "invalidArgument"
    assert named in error["message"]


def test_a_body_that_is_no_json_is_refused(http):
    response, content = http.request(ROOT + "/labels", "POST", "{")

    assert response.status == 400
    assert "Parse error" in json.loads(content)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "verb", "status"),
    [
        ("/nowhere", "GET", 404),
        ("/messages", "DELETE", 404),
        ("/settings/vacation", "GET", 501),
    ],
)
def test_what_is_not_there_says_so(http, path, verb, status):
    response, _ = http.request(ROOT + path, verb)

    assert response.status == status


def test_another_persons_mailbox_is_forbidden(users):
    with pytest.raises(HttpError) as refused:
        users.getProfile(userId="eve@harbour.example").execute()

    assert refused.value.status_code == 403


def test_a_query_too_long_for_a_url_is_answered_all_the_same(users, simulator):
    simulator.import_message("ada@harbour.example", letter("Mooring fees"))
    query = "{" + " ".join(f"subject:word{number}" for number in range(200)) + " mooring}"

    found = users.messages().list(userId="me", q=query).execute()

    assert len(query) > 2048
    assert len(found["messages"]) == 1
