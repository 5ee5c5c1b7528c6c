"""Every failure of Google's libraries and the network becomes one GmailError."""

from __future__ import annotations

import http.client
import json
import ssl
from datetime import UTC, datetime

import httplib2
import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError
from googleapiclient.errors import HttpError, InvalidJsonError

from mail.gmail import errors
from mail.gmail.errors import TRANSLATED, GmailError, translate

pytestmark = pytest.mark.req("M-02")

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def _http_error(status: int, reason: str = "", message: str = "secret text", **headers: str):
    response = httplib2.Response(headers)
    response.status = status
    body = {"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}
    return HttpError(response, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "invalidArgument", errors.GmailBadRequest),
        (400, "failedPrecondition", errors.GmailUnavailable),
        (401, "authError", errors.GmailAuthExpired),
        (403, "rateLimitExceeded", errors.GmailRateLimited),
        (403, "userRateLimitExceeded", errors.GmailRateLimited),
        (403, "quotaExceeded", errors.GmailRateLimited),
        (403, "dailyLimitExceeded", errors.GmailRateLimited),
        (403, "domainPolicy", errors.GmailForbidden),
        (403, "insufficientPermissions", errors.GmailForbidden),
        (403, "accessNotConfigured", errors.GmailForbidden),
        (403, "", errors.GmailForbidden),
        (404, "notFound", errors.GmailNotFound),
        (408, "", errors.GmailUnavailable),
        (409, "aborted", errors.GmailConflict),
        (410, "", errors.GmailNotFound),
        (411, "", errors.GmailBadRequest),
        (429, "rateLimitExceeded", errors.GmailRateLimited),
        (500, "backendError", errors.GmailUnavailable),
        (502, "", errors.GmailUnavailable),
        (503, "", errors.GmailUnavailable),
    ],
)
def test_answers_are_told_apart_by_status_and_reason(status, reason, kind):
    error = translate(_http_error(status, reason))

    assert type(error) is kind
    assert (error.status, error.reason) == (status, reason)


@pytest.mark.parametrize(
    ("message", "header", "seconds"),
    [
        ("", "7", 7),
        ("", "Mon, 04 May 2026 12:01:30 GMT", 90),
        ("", "Mon, 04 May 2026 11:00:00 GMT", 0),
        ("User-rate limit exceeded.  Retry after 2026-05-04T12:00:20.123Z", "", 20),
        ("Retry after 2026-05-04T12:00:20Z", "5", 5),
        ("Retry after 2026-99-04T12:00:20Z", "", None),
        ("", "soon", None),
        ("", "-4", None),
        ("", "999999999", 86400),
        ("", "", None),
    ],
)
def test_the_wait_gmail_asks_for_is_read_in_seconds(message, header, seconds):
    headers = {"retry-after": header} if header else {}

    error = translate(_http_error(429, "rateLimitExceeded", message, **headers), now=NOW)

    assert error.retry_after == seconds


def test_a_daily_limit_lasts_until_pacific_midnight():
    error = translate(_http_error(403, "dailyLimitExceeded"), now=NOW)

    assert error.retry_after == 20 * 3600


@pytest.mark.parametrize(
    ("raised", "kind", "reason"),
    [
        (TimeoutError("x"), errors.GmailUnavailable, "TimeoutError"),
        (ConnectionResetError("x"), errors.GmailUnavailable, "ConnectionResetError"),
        (ssl.SSLError("x"), errors.GmailUnavailable, "SSLError"),
        (httplib2.ServerNotFoundError("x"), errors.GmailUnavailable, "ServerNotFoundError"),
        (http.client.IncompleteRead(b""), errors.GmailUnavailable, "IncompleteRead"),
        (InvalidJsonError("x"), errors.GmailUnavailable, "InvalidJsonError"),
        (TransportError("x"), errors.GmailUnavailable, "TransportError"),
        (RefreshError("x", retryable=True), errors.GmailUnavailable, "RefreshError"),
        (
            RefreshError("invalid_grant: Token has been expired", {"error": "invalid_grant"}),
            errors.GmailNeedsReauth,
            "invalid_grant",
        ),
        (
            RefreshError("x", {"error": "invalid_client"}),
            errors.GmailMisconfigured,
            "invalid_client",
        ),
        (RefreshError("no refresh token"), errors.GmailAuthExpired, "RefreshError"),
        # A proxy's page that only contains the word: no consent was withdrawn.
        (
            RefreshError("<p>invalid_grant? See our help</p>"),
            errors.GmailAuthExpired,
            "RefreshError",
        ),
        (DefaultCredentialsError("x"), errors.GmailAuthExpired, "DefaultCredentialsError"),
    ],
)
def test_what_is_no_answer_is_told_apart_too(raised, kind, reason):
    error = translate(raised)

    assert isinstance(raised, TRANSLATED)
    assert type(error) is kind
    assert (error.status, error.reason) == (None, reason)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"[1]",
        b'{"error": "x"}',
        b'{"error": {"errors": 5}}',
        b"\xff",
    ],
)
def test_an_answer_that_is_not_gmails_is_still_translated(content):
    response = httplib2.Response({})
    response.status = 502

    error = translate(HttpError(response, content))

    assert type(error) is errors.GmailUnavailable
    assert error.reason == ""


@pytest.mark.parametrize(
    "content", [b"", b"<html>Not found</html>", b"[1]", b'{"error": "x"}', b"\xff"]
)
@pytest.mark.parametrize("status", [302, 304, 400, 403, 404, 407, 409, 410])
def test_a_refusal_that_is_not_gmails_says_nothing_of_the_mailbox(status, content):
    """A proxy's error page does not mean that the message is gone or anything is forbidden."""
    response = httplib2.Response({})
    response.status = status

    error = translate(HttpError(response, content))

    assert type(error) is errors.GmailUnavailable
    assert (error.status, error.reason) == (status, "unreadable_answer")


@pytest.mark.parametrize("status", [413, 414])
def test_a_request_that_is_too_large_is_not_tried_again_whoever_says_so(status):
    response = httplib2.Response({})
    response.status = status

    error = translate(HttpError(response, b"<html>Your client issued a request too large</html>"))

    assert type(error) is errors.GmailBadRequest


def test_a_wait_is_a_wait_whoever_asks_for_it():
    response = httplib2.Response({"retry-after": "7"})
    response.status = 429

    error = translate(HttpError(response, b"<html>Sorry</html>"))

    assert type(error) is errors.GmailRateLimited
    assert error.retry_after == 7


def test_a_limit_of_sending_is_told_from_one_of_all_requests():
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    told = "User-rate limit exceeded.  Retry after 2026-05-04T15:00:00.123Z (Mail sending)"

    error = translate(_http_error(429, "rateLimitExceeded", told), now=now)

    assert type(error) is errors.GmailSendingLimited
    assert error.retry_after == 3 * 3600


def test_a_second_watch_is_a_conflict():
    told = (
        "Only one user push notification client allowed per developer (call /stop then try again)"
    )

    error = translate(_http_error(400, "invalidArgument", told))

    assert type(error) is errors.GmailConflict


def test_errors_carry_neither_gmails_words_nor_the_address():
    original = _http_error(404, "notFound", "No such mail: dear Bob, my password is x")
    original.uri = "https://gmail.googleapis.com/messages/1?access_token=abc"

    shown = repr(translate(original)) + str(translate(original))

    assert "password" not in shown
    assert "access_token" not in shown
    assert "404" in shown


def test_a_reason_that_is_not_a_word_is_dropped():
    error = translate(_http_error(400, "Dear Bob, you <b>owe</b> me"))

    assert error.reason == ""


def test_every_error_has_its_own_code():
    kinds = GmailError.__subclasses__()

    assert len({kind.code for kind in kinds} | {GmailError.code}) == len(kinds) + 1
