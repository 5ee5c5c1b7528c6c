"""Answers with status 200 and no usable body: empty, a page of HTML, JSON that was cut off."""

from __future__ import annotations

import httplib2
import pytest

from mail.gmail import errors
from mail.gmail.client import GmailClient

pytestmark = pytest.mark.req("M-02")


class Broken:
    """Answers each request with the same bytes."""

    def __init__(self, content: bytes, status: int) -> None:
        self._answer = httplib2.Response({"content-type": "application/json"}), content
        self._answer[0].status = status

    def request(
        self, uri: str, method: str = "GET", **_: object
    ) -> tuple[httplib2.Response, bytes]:
        return self._answer


def _client(content: bytes, status: int = 200) -> GmailClient:
    return GmailClient(lambda: Broken(content, status))


READS_AND_WRITES = {
    "profile": lambda gmail: gmail.profile(),
    "list_messages": lambda gmail: gmail.list_messages(""),
    "get_message": lambda gmail: gmail.get_message("1"),
    "history": lambda gmail: gmail.history("1"),
    "list_labels": lambda gmail: gmail.list_labels(),
    "list_send_as": lambda gmail: gmail.list_send_as(),
    "list_drafts": lambda gmail: gmail.list_drafts(),
    "find_drafts": lambda gmail: gmail.find_drafts(""),
    "get_attachment": lambda gmail: gmail.get_attachment("1", "2"),
    "modify_message": lambda gmail: gmail.modify_message("1", add=["STARRED"]),
    "create_draft": lambda gmail: gmail.create_draft(b"x"),
    "send_draft": lambda gmail: gmail.send_draft("1"),
}
WITHOUT_ANSWER = {
    "batch_modify": lambda gmail: gmail.batch_modify(["1"], add=["STARRED"]),
    "delete_message": lambda gmail: gmail.delete_message("1"),
    "delete_draft": lambda gmail: gmail.delete_draft("1"),
}
PAGE = b"<html>Sign in to the network</html>"
BROKEN = [PAGE, b'{"historyId": "12", "mess', b"[1]", b'"x"', b"\xff\xfe"]


@pytest.mark.parametrize("content", [*BROKEN, b"", b"null", b"{}"], ids=repr)
@pytest.mark.parametrize("call", READS_AND_WRITES.values(), ids=READS_AND_WRITES)
def test_what_is_no_answer_is_not_taken_for_an_empty_one(call, content):
    gmail = _client(content)

    with pytest.raises(errors.GmailUnavailable) as raised:
        call(gmail)

    assert raised.value.reason == "unreadable_answer"
    # An unreadable answer is an answer: the exchange did not time out.
    assert gmail.exchange.is_answered


@pytest.mark.parametrize("content", [PAGE, b"\xff\xfe"], ids=repr)
@pytest.mark.parametrize("call", WITHOUT_ANSWER.values(), ids=WITHOUT_ANSWER)
def test_a_write_is_not_done_because_somebody_says_200(call, content):
    with pytest.raises(errors.GmailUnavailable):
        call(_client(content))


@pytest.mark.parametrize(("content", "status"), [(b"", 200), (b"\n", 200), (b"", 204)])
@pytest.mark.parametrize("call", WITHOUT_ANSWER.values(), ids=WITHOUT_ANSWER)
def test_a_write_that_gmail_answers_with_nothing_is_done(call, content, status):
    call(_client(content, status))


def test_a_message_of_a_batch_that_cannot_be_read_is_named():
    part = "Content-Type: application/http\r\nContent-ID: <response-x + {}>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}\r\n"
    parts = [part.format(*one) for one in (("a", '{"id": "a"}'), ("b", "<html>"), ("c", "{}"))]
    body = "".join(f"--b\r\n{one}" for one in parts) + "--b--"
    http = Broken(body.encode(), 200)
    http._answer[0]["content-type"] = "multipart/mixed; boundary=b"

    (found,) = GmailClient(lambda: http).get_messages(["a", "b", "c"])

    assert found["a"] == {"id": "a"}
    assert [getattr(found[one], "reason", "") for one in "bc"] == ["unreadable_answer"] * 2


@pytest.mark.parametrize("content", [PAGE, b"", b"{}"], ids=repr)
def test_a_page_in_place_of_a_batch_is_an_outage(content):
    http = Broken(content, 200)
    http._answer[0]["content-type"] = "text/html"

    with pytest.raises(errors.GmailUnavailable):
        list(GmailClient(lambda: http).get_messages(["a"]))
