"""The errors of Gmail, and the translation of the libraries' exceptions into them.

    GmailError
      GmailBadRequest       400: the request itself is wrong; repeating it is useless
      GmailAuthExpired      401 in spite of a new access token
        GmailNeedsReauth    the refresh token is no longer good: a person must connect again
      GmailMisconfigured    Google refuses this service's OAuth client, whatever the account
      GmailForbidden        403: policy or missing permission
      GmailNotFound         404, 410
      GmailHistoryExpired   404 on history.list: synchronise from the start
      GmailConflict         409: it exists already, or somebody else was faster; a second watch, too
      GmailRateLimited      429, and 403 for usage limits
        GmailSendingLimited 429 for the mail that the account may send in a day
      GmailUnavailable      5xx, network, timeouts, answers not of Gmail: try later

No message text and no credential appears in an error: of Gmail's answer only the machine-readable
reason is kept.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta, timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, ClassVar

import httplib2
from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError
from googleapiclient.errors import Error as ClientError
from googleapiclient.errors import HttpError

_USAGE_REASONS = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"}
)
# Google refuses every refresh with these until a person has acted; the last is that of Advanced
# Protection.
# Source: https://developers.google.com/identity/protocols/oauth2#expiration
_GRANT_REASONS = frozenset({"invalid_grant", "admin_policy_enforced", "policy_enforced"})
UNANSWERED = "TimeoutError"
"""The reason of a GmailUnavailable when Gmail did not answer in time."""
UNREADABLE = "unreadable_answer"
"""The reason of a GmailUnavailable when the answer is not Gmail's own, or was cut off."""
FAILED_PRECONDITION = "failedPrecondition"
"""The reason of a GmailUnavailable when the mailbox is not ready, or there is none."""
REFRESH_IN_PROGRESS = "refresh_in_progress"
"""The reason of a GmailUnavailable when another thread or process renews the account's token."""
_CLIENT_REASONS = frozenset(
    {"invalid_client", "unauthorized_client", "deleted_client", "disabled_client"}
)
_REASON = re.compile(r"[A-Za-z_]{1,60}")
_RETRY_AFTER_TEXT = re.compile(r"[Rr]etry after (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z")
# What Gmail adds where the limit is that of sending alone.
# Source: https://developers.google.com/gmail/api/guides/handle-errors
_SENDING = "(mail sending)"
# Gmail answers so, with 400, while the mailbox's changes are published to another topic.
_WATCHED_ALREADY = "only one user push notification client"
# Google resets daily limits at midnight Pacific time, which in summer is an hour before this.
_PACIFIC = timezone(timedelta(hours=-8))
# Google may ask for a long wait, but a longer one than this comes from a misread date.
_MAX_RETRY_AFTER_SECONDS = 24 * 3600.0


class GmailError(Exception):
    """Gmail could not do what was asked."""

    code: ClassVar[str] = "gmail_error"

    def __init__(
        self,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        """HTTP status; None when there was no answer."""
        self.reason = reason
        """Gmail's machine-readable reason, or the kind of network failure."""
        self.retry_after = retry_after
        """Seconds Gmail asks to wait; None when it does not say."""
        detail = ", ".join(str(fact) for fact in (status, reason) if fact)
        super().__init__(f"{type(self).__doc__} ({detail})" if detail else type(self).__doc__)


class GmailBadRequest(GmailError):
    """Gmail refused the request as invalid; correct it, repeating it is useless."""

    code = "gmail_bad_request"


class GmailAuthExpired(GmailError):
    """Gmail no longer accepts the account's credentials; connect the account again."""

    code = "gmail_auth_expired"


class GmailNeedsReauth(GmailAuthExpired):
    """Google no longer honours the account's permission; connect the account again."""

    code = "gmail_needs_reauth"


class GmailMisconfigured(GmailError):
    """Google refuses this service itself; check GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET."""

    code = "gmail_misconfigured"


class GmailForbidden(GmailError):
    """Gmail does not permit this to the account; check its scopes and its domain's policy."""

    code = "gmail_forbidden"


class GmailNotFound(GmailError):
    """Gmail has no such message, thread, label, draft or attachment any more."""

    code = "gmail_not_found"


class GmailHistoryExpired(GmailError):
    """Gmail no longer keeps history from this id; synchronise the mailbox in full."""

    code = "gmail_history_expired"


class GmailConflict(GmailError):
    """Gmail already has this, or changed it meanwhile; read it again."""

    code = "gmail_conflict"


class GmailRateLimited(GmailError):
    """Gmail wants fewer requests from this account; wait as long as it says."""

    code = "gmail_rate_limited"


class GmailSendingLimited(GmailRateLimited):
    """The account has sent as much as Gmail allows for now; everything else still works."""

    code = "gmail_sending_limited"


class GmailUnavailable(GmailError):
    """Gmail could not be reached or did not answer properly; a write may have taken effect."""

    code = "gmail_unavailable"


_BY_STATUS: Mapping[int, type[GmailError]] = {
    HTTPStatus.BAD_REQUEST: GmailBadRequest,
    HTTPStatus.UNAUTHORIZED: GmailAuthExpired,
    HTTPStatus.FORBIDDEN: GmailForbidden,
    HTTPStatus.NOT_FOUND: GmailNotFound,
    HTTPStatus.REQUEST_TIMEOUT: GmailUnavailable,
    HTTPStatus.CONFLICT: GmailConflict,
    HTTPStatus.GONE: GmailNotFound,
    HTTPStatus.TOO_MANY_REQUESTS: GmailRateLimited,
}

# Refusals by which a message, a draft or a permission is taken to be gone: Gmail itself must say so.
_OF_WHAT_WAS_ASKED = (GmailBadRequest, GmailForbidden, GmailNotFound, GmailConflict)
_TOO_LARGE = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_URI_TOO_LONG)

TRANSLATED = (
    ClientError,
    GoogleAuthError,
    httplib2.HttpLib2Error,
    http.client.HTTPException,
    OSError,
)
"""What Google's libraries and the network raise; all of it goes through translate."""


def translate(error: Exception, *, now: datetime | None = None) -> GmailError:
    """Return the GmailError for one of TRANSLATED; raise it ``from`` the original.

    Absolute retry times are measured from ``now`` (aware), which is the present by default.
    """
    if isinstance(error, HttpError):
        return _from_answer(error, now or datetime.now(UTC))
    if isinstance(error, RefreshError) and not error.retryable:
        return refused_grant(oauth_code(error) or type(error).__name__)
    if isinstance(error, GoogleAuthError) and not isinstance(error, RefreshError | TransportError):
        return GmailAuthExpired(reason=type(error).__name__)
    cause = error.args[0] if isinstance(error, TransportError) and error.args else error
    return GmailUnavailable(
        reason=UNANSWERED if isinstance(cause, TimeoutError) else type(error).__name__
    )


def refused_grant(reason: str) -> GmailError:
    """Return the error for the token endpoint's refusal, by its OAuth error code."""
    kind = GmailMisconfigured if reason in _CLIENT_REASONS else GmailAuthExpired
    return (GmailNeedsReauth if reason in _GRANT_REASONS else kind)(reason=reason)


def _from_answer(error: HttpError, now: datetime) -> GmailError:
    status = int(error.resp.status)
    told = _read_body(error.content)
    kind = _BY_STATUS.get(status, GmailBadRequest if status < 500 else GmailUnavailable)
    # Google's own front end refuses a request for its size with a page.
    if told is None and kind in _OF_WHAT_WAS_ASKED and status not in _TOO_LARGE:
        return GmailUnavailable(status=status, reason=UNREADABLE)
    message, reason = told or ("", "")
    if status == HTTPStatus.FORBIDDEN and reason in _USAGE_REASONS:
        kind = GmailRateLimited
    if kind is GmailRateLimited and _SENDING in message.lower():
        kind = GmailSendingLimited
    if status == HTTPStatus.BAD_REQUEST and _WATCHED_ALREADY in message.lower():
        kind = GmailConflict
    elif status == HTTPStatus.BAD_REQUEST and reason == FAILED_PRECONDITION:
        kind = GmailUnavailable
    retry_after = _retry_after(error.resp, message, now)
    if retry_after is None and reason == "dailyLimitExceeded":
        retry_after = _until_pacific_midnight(now)
    return kind(status=status, reason=reason, retry_after=retry_after)


def _read_body(content: bytes) -> tuple[str, str] | None:
    """Return Gmail's message (for parsing only, never to be shown) and its first reason.

    None where the body is not Gmail's: a page of a proxy's, or one that was cut off.
    """
    try:
        error: Any = json.loads(content)["error"]
        message = str(error.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    try:
        reason = str((error.get("errors") or [{}])[0].get("reason", ""))
    except (KeyError, TypeError, AttributeError, IndexError):
        reason = ""
    return message, reason if _REASON.fullmatch(reason) else ""


def _retry_after(headers: Mapping[str, str], message: str, now: datetime) -> float | None:
    value = str(headers.get("retry-after", "")).strip()
    if re.fullmatch(r"\d{1,9}", value):
        return min(float(value), _MAX_RETRY_AFTER_SECONDS)
    moment: datetime | None = None
    try:
        if value:
            moment = parsedate_to_datetime(value)
        elif match := _RETRY_AFTER_TEXT.search(message):
            moment = datetime.fromisoformat(match[1])
    except (ValueError, TypeError):
        return None
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), _MAX_RETRY_AFTER_SECONDS)


def _until_pacific_midnight(now: datetime) -> float:
    here = now.astimezone(_PACIFIC)
    midnight = datetime.combine(here.date() + timedelta(days=1), time(), tzinfo=_PACIFIC)
    return (midnight - here).total_seconds()


def oauth_code(error: RefreshError) -> str:
    """Return the OAuth error code, such as invalid_grant; empty if the answer has none."""
    return next(filter(None, map(_code_in, error.args)), "")


def answered_code(content: bytes) -> str:
    """Return the OAuth error code in an answer of the token endpoint; empty if there is none."""
    try:
        return _code_in(json.loads(content))
    except (ValueError, RecursionError):
        return ""


def _code_in(answer: object) -> str:
    code = answer.get("error", "") if isinstance(answer, dict) else ""
    return str(code) if _REASON.fullmatch(str(code)) else ""
