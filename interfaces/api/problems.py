"""The shape of every error: problem details (RFC 9457) with a code and the faulty fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import TypedDict

from rest_framework.exceptions import APIException

from interfaces.correlation import current_correlation_id

PROBLEM_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request; `field` is empty for the request as a whole."""

    field: str
    code: str
    message: str


class Problem(TypedDict):
    """The body of every error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    correlation_id: str
    errors: list[dict[str, str]]


class Refusal(APIException):
    """A refused request, with its faults."""

    def __init__(
        self, status: HTTPStatus, code: str, detail: str, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(detail, code)
        self.status_code = status.value
        self.faults = faults


def problem(status: int, code: str, detail: str, faults: Sequence[Fault] = ()) -> Problem:
    """Return the body of an error answer."""
    return Problem(
        # The code tells problems apart; with about:blank the title is HTTP's own phrase.
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_sendable(detail),
        code=code,
        correlation_id=current_correlation_id() or "",
        errors=[
            {name: _sendable(text) for name, text in asdict(fault).items()} for fault in faults
        ],
    )


def _sendable(text: str) -> str:
    """Return text that can be encoded, whatever the request contained."""
    return text[:2000].encode("utf-8", "replace").decode()
