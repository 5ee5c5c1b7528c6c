"""An HTTP request and its answer, for each of the simulator's transports; errors as Gmail's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

_STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}
_USAGE_REASONS = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"}
)


class ApiError(Exception):
    """Raised for a request that Gmail would refuse; it is answered with the error's body."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Return the extra headers of the answer: Retry-After in seconds, where given."""
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}

    def body(self) -> bytes:
        """Return the JSON error body as Gmail writes it."""
        detail: dict[str, str] = {
            "message": self.message,
            "domain": "usageLimits" if self.reason in _USAGE_REASONS else "global",
            "reason": self.reason,
        }
        if self.status == HTTPStatus.UNAUTHORIZED:
            detail |= {"location": "Authorization", "locationType": "header"}
        error = {
            "code": self.status,
            "message": self.message,
            "errors": [detail],
            "status": _STATUS_WORDS.get(self.status, "UNKNOWN"),
        }
        return json.dumps({"error": error}).encode()


def invalid_argument(message: str) -> ApiError:
    """Return the 400 for a request that cannot succeed unless it is changed."""
    return ApiError(400, "invalidArgument", message)


def not_found() -> ApiError:
    """Return the 404 Gmail gives for any unknown id."""
    return ApiError(404, "notFound", "Requested entity was not found.")


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, whichever transport it came over."""

    verb: str
    uri: str
    """The absolute URI, or only its path and query."""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: JSON unless a header says otherwise, or nothing with 204."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
